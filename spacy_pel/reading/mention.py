"""A mention as an encoder is to read it, and what every reader of mentions offers.

A mention can be read in three ways: marked in a text of its own (``marked_texts``), in windows of its
document (``document_windows``), or from the states that another component gave the document's
tokens (``SharedStatesReader``). A new way is a new ``MentionReader``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..errors import PelError


class TokenStates(NamedTuple):
    """The states that another component gave the tokens of a document."""

    states: np.ndarray  # float32 [t, w], one row a token
    # int64 [t, 2], the first character of each token and the one after its last, ascending.
    offsets: np.ndarray
    # float32 [t, w]. Training adds the gradient with respect to the states to it.
    gradient: np.ndarray


@dataclass(eq=False)
class DocumentContext:
    """What the mentions of one document have in common, apart from the text. No two are equal."""

    token_states: TokenStates | None = None


class MentionInContext(NamedTuple):
    """A mention in the text that it is read in.

    Mentions of the same document (None: of the same text) and text may be read together.
    """

    text: str  # of the document; acronyms in its mentions may be replaced by their long forms
    start: int  # the first character of the mention
    end: int  # the character after its last
    document: DocumentContext | None = None
    # Whether [MASK] is read in place of the mention. Training does so, with marked texts.
    is_masked: bool = False
    # All words of a mention that shares some with others (``coordination``); "" if it has its own.
    read_as: str = ""

    @property
    def surface(self) -> str:
        """The words of the mention."""
        return self.read_as or self.text[self.start : self.end]


class GoldMention(NamedTuple):
    """A mention and the entities that it may mean, as annotators gave them."""

    context: MentionInContext  # the mention in the text of its document
    # The numbers of its gold entities in the KB, at least one. Any of them is right.
    golds: tuple[int, ...]
    # The text of its document as it is written, where the context has long forms in place of
    # acronyms. It tells documents apart.
    written_in: str = ""

    @property
    def surface(self) -> str:
        """The words of the mention."""
        return self.context.surface


class MentionReader(Protocol):
    """Turns mentions into what a mention tower reads."""

    # Whether a document is read once for all its mentions. Then each mention may change the vectors of
    # the others. Otherwise each mention costs an input of its own.
    reads_documents: bool

    def inputs(self, mentions: Sequence[MentionInContext]) -> Any:
        """The inputs of the tower, which gives one vector for each mention, in their order."""
        ...


class DocumentSpans(NamedTuple):
    """The mentions of a document as spans of its tokens."""

    tokens: TokenStates
    mentions: np.ndarray  # int64 [m], the places of the mentions among those that were given
    spans: np.ndarray  # int64 [m, 2], the tokens of each: its first one and the one after its last


class SharedStatesReader:
    """Reads mentions from the states that their documents carry (``DocumentContext.token_states``)."""

    reads_documents = True

    def inputs(self, mentions: Sequence[MentionInContext]) -> list[DocumentSpans]:
        """The mentions of each document, each with all tokens that it touches, or the nearest one.

        PelError if no component gave the tokens of a document any states.
        """
        members: dict[DocumentContext | None, list[int]] = {}
        for place, mention in enumerate(mentions):
            members.setdefault(mention.document, []).append(place)
        documents = []
        for document, places in members.items():
            if document is None or document.token_states is None:
                problem = "the linker shares what a component before it has read, which is not here"
                raise PelError(problem, "load the whole pipeline, spacy.load(FOLDER)")
            starts, ends = document.token_states.offsets.T
            first = np.searchsorted(ends, [mentions[i].start for i in places], side="right")
            last = np.searchsorted(starts, [mentions[i].end for i in places], side="left")
            first = np.minimum(first, len(starts) - 1)
            spans = np.stack([first, np.maximum(last, first + 1)], axis=1)
            documents.append(DocumentSpans(document.token_states, np.array(places), spans))
        return documents
