"""A mention as an encoder is to read it, and what every reader of mentions offers.

A mention can be read in three ways: marked in a text of its own (``marked_texts``), in windows of its
document (``document_windows``), or from the states that another component gave the document's
tokens (``shared_states``). A new way is a new ``MentionReader``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

Inputs = TypeVar("Inputs", covariant=True)


class TokenStates(NamedTuple):
    """The states that another component gave the tokens of a document."""

    states: np.ndarray  # float32 [t, w], one row a token
    # int64 [t, 2], the first character of each token and the one after its last, ascending.
    offsets: np.ndarray
    # float32 [t, w]. Training adds the gradient with respect to the states to it.
    gradient: np.ndarray


@dataclass(eq=False)
class DocumentContext:
    """What the mentions of one document have in common, apart from the text.

    Two of them are never equal: documents with the same text may have different mentions.
    """

    token_states: TokenStates | None = None


class MentionInContext(NamedTuple):
    """A mention in the text that it is read in.

    Attributes:
        text: The text of the document. Acronyms in its mentions may be replaced by their long forms.
        start: The first character of the mention.
        end: The character after its last.
        document: The document. Mentions that have it and the text in common may be read together. If
            it is None for all of them, the text alone tells documents apart.
        is_masked: Whether [MASK] is read in place of the mention. Training does so, with readers of
            marked texts.
    """

    text: str
    start: int
    end: int
    document: DocumentContext | None = None
    is_masked: bool = False

    @property
    def surface(self) -> str:
        """The words of the mention."""
        return self.text[self.start : self.end]


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


class MentionReader(Protocol[Inputs]):
    """Turns mentions into what a mention tower reads.

    Attributes:
        reads_documents: Whether a document is read once for all its mentions. Then each mention may
            change the vectors of the others. Otherwise each mention costs an input of its own.
    """

    reads_documents: bool

    def inputs(self, mentions: Sequence[MentionInContext]) -> Inputs:
        """The inputs of the tower, which gives one vector for each mention, in their order."""
        ...
