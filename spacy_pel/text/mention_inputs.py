"""The three kinds of inputs of mention encoders, each with a ``MentionReader``.

- The mention marked in its context (PEL, appendix A), alone or before an entity (appendix B):

      mention:  [CLS] left [Ms] mention [Me] right [SEP]
      pair:     [CLS] left [Ms] mention [Me] right [SEP] title [SEP] types [SEP] description [SEP]

  A masked mention (see ``training.mention_views``) is read as [MASK].
- Windows of a document, which is encoded once for all its mentions:

      window:   [CLS] tokens [SEP]

  No token is inserted. "focus" marks the tokens of all mentions.
- The states that another component computed for the tokens of the document.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from string import punctuation
from typing import Any, NamedTuple, Protocol
from unicodedata import category

import numpy as np
from tokenizers import Tokenizer

from ..errors import PelError
from .entity_texts import EntityReader
from .token_inputs import EncoderInputs, TokenIds, TokenizedText, Window, WordPieces, text_inputs

# The minimum share of the tokens of a window that the next window repeats.
OVERLAP = 0.25


@dataclass(eq=False)
class DocumentContext:
    """The data, besides the text, that the mentions of a document share. It is compared by identity.

    The arrays are None unless another component has encoded the document.
    """

    states: np.ndarray | None = None  # float32 [t, w], of its tokens
    offsets: np.ndarray | None = None  # int64 [t, 2], the start and end of each token, ascending
    gradient: np.ndarray | None = None  # float32 [t, w], with respect to the states, in training


class MentionInContext(NamedTuple):
    """A mention in its text.

    Mentions with the same document and text may be encoded together.
    """

    text: str  # of the document; its mentions may have long forms in place of abbreviations
    start: int  # the first character of the mention
    end: int  # the character after its last
    document: DocumentContext | None = (
        None  # None: mentions of the same text belong to one document
    )
    is_masked: bool = False  # in training: read [MASK] in place of the mention
    # All words of a mention that shares words with others (``coordination``), otherwise "".
    read_as: str = ""

    @property
    def surface(self) -> str:
        """The words of the mention."""
        return self.read_as or self.text[self.start : self.end]


class GoldMention(NamedTuple):
    """A mention and its gold entities."""

    context: MentionInContext
    golds: tuple[
        int, ...
    ]  # the numbers of its gold entities in the KB, at least one; any of them is correct
    # The original text of its document: the context may have long forms in place of abbreviations.
    # It identifies the document.
    written_in: str = ""

    @property
    def surface(self) -> str:
        """The words of the mention."""
        return self.context.surface


class MentionReader(Protocol):
    """Converts mentions to the inputs of a mention encoder."""

    # Whether a document is encoded once for all its mentions, so that a mention may change the vectors of
    # the others. Otherwise, each mention has its own input.
    reads_documents: bool

    def inputs(self, mentions: Sequence[MentionInContext]) -> Any:
        """Return inputs from which the encoder computes one vector for each mention, in order."""
        ...


class MarkedTextReader:
    """Reads each mention in a context of ``length`` tokens, or more if the mention is longer."""

    reads_documents = False

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        self._position_limit = position_limit
        self._pieces = WordPieces(tokenizer)

    def inputs(self, mentions: Sequence[MentionInContext]) -> EncoderInputs:
        """Return one input for each mention, in order."""
        return text_inputs(self.tokens(mentions))

    def tokens(self, mentions: Sequence[MentionInContext]) -> list[TokenIds]:
        """Return the token ids of each mention: ``[CLS] left [Ms] mention [Me] right [SEP]``.

        Only a mention with more tokens than the encoder has positions is cut. Each side of the context gets
        half of the remaining ``length``, and the tokens that the other side does not use.

        A text is tokenised once for all its mentions, split at their edges. It is tokenised again for a
        mention that splits a word, because the other mentions need the whole word.
        """
        keys: list[Hashable] = []
        texts: dict[Hashable, tuple[str, set[int]]] = {}
        for mention in mentions:
            text, edges = mention.text, (mention.start, mention.end)
            splits_a_word = any(not _separates_words(text[edge - 1 : edge + 1]) for edge in edges)
            keys.append(mention if splits_a_word else text)
            texts.setdefault(keys[-1], (text, set()))[1].update(edges)
        tokenized = self._pieces.tokenize_split(texts)
        return [self._marked(tokenized[key], mention) for key, mention in zip(keys, mentions)]

    def _marked(self, text: TokenizedText, mention: MentionInContext) -> TokenIds:
        ids, pieces = text.ids, self._pieces
        first, last = text.token_at[mention.start], text.token_at[mention.end]
        last = min(last, first + self._position_limit - 4)
        room = max(0, self.length - 4 - (last - first))
        n_left, n_right = first, len(ids) - last
        focus = [pieces.mask] if mention.is_masked else ids[first:last]
        left = min(n_left, max(room // 2, room - n_right))
        right = min(n_right, room - left)
        parts = (
            [pieces.cls], ids[first - left : first], [pieces.mention_start],
            focus, [pieces.mention_end], ids[last : last + right], [pieces.sep],
        )  # fmt: skip
        return TokenIds(np.concatenate(parts).astype(np.int32), left + 2, left + 2 + len(focus))


def _separates_words(characters: str) -> bool:
    """Tell whether BERT's tokenizer splits words between two characters, or at the edge of a text."""
    return len(characters) < 2 or any(
        character.isspace() or character in punctuation or category(character).startswith("P")
        for character in characters
    )


class PairReader:
    """Converts pairs of a mention and an entity to the inputs of the cross-encoder.

    The mention's side, with its [CLS] and [SEP], takes at most half of the tokens and is the same for
    all entities. The entity's side takes the rest and is cut at its end.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        half = self.length // 2
        self.mentions = MarkedTextReader(tokenizer, half, half).tokens
        self.entities = EntityReader(tokenizer, self.length, self.length).tokens

    def pair(self, mention: TokenIds, entity: TokenIds) -> TokenIds:
        """Return both sides as one input. Its start and end are those of the entity's side."""
        start = len(mention.ids)
        ids = np.concatenate([mention.ids, entity.ids[1 : 1 + self.length - start]])
        ids[-1] = entity.ids[-1]  # [SEP], also where the entity's side is cut
        return TokenIds(ids, start, len(ids))


class WindowReader:
    """Reads mentions in windows of at most ``length`` tokens, including special tokens."""

    reads_documents = True

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        self._pieces = WordPieces(tokenizer)

    def inputs(self, mentions: Sequence[MentionInContext]) -> EncoderInputs:
        """Cut documents into as few overlapping windows of the same length as possible.

        A mention is read in the window where it is farthest from the edges. If no window contains the whole
        mention, it gets a window with the mention in the middle. If it is longer than a window, its beginning
        is read. Windows without a mention to read are left out.

        A text is tokenised once, split at the edges of its mentions. A mention without a token is read
        from its whole window.
        """
        # A document may have two texts, which are read separately.
        members: dict[tuple[DocumentContext | None, str], list[int]] = {}
        for place, mention in enumerate(mentions):
            members.setdefault((mention.document, mention.text), []).append(place)
        texts = {
            key: (key[1], {offset for i in places for offset in mentions[i][1:3]})
            for key, places in members.items()
        }
        windows = []
        for key, (ids, token_at) in self._pieces.tokenize_split(texts).items():
            places = members[key]
            spans = [(token_at[mentions[i].start], token_at[mentions[i].end]) for i in places]
            windows += self._windows(ids, np.array(spans), np.array(places))
        return EncoderInputs(windows)

    def _windows(self, ids: np.ndarray, spans: np.ndarray, mentions: np.ndarray) -> list[Window]:
        """Return the windows of a document. ids: int32 [t]; spans: int64 [m, 2]; mentions: int64 [m]."""
        # "focus" marks all mentions, including those that are read in other windows.
        opened, closed = (np.bincount(edges, minlength=len(ids) + 1) for edges in spans.T)
        marked = (opened - closed).cumsum()[: len(ids)] > 0
        room = self.length - 2
        spans[:, 1] = np.minimum(spans[:, 1], spans[:, 0] + room)
        bounds = window_bounds(len(ids), spans, room)
        order = np.lexsort(bounds.T)
        first_of_window = np.flatnonzero(np.diff(bounds[order], axis=0).any(axis=1)) + 1
        windows = []
        for members in np.split(order, first_of_window):
            first, last = bounds[members[0]]
            places = spans[members] - first + 1
            places[places[:, 0] == places[:, 1]] = 0, last - first + 2
            focus = np.concatenate([[False], marked[first:last], [False]])
            window_ids = np.concatenate(
                ([self._pieces.cls], ids[first:last], [self._pieces.sep])
            ).astype(np.int32)
            windows.append(Window(window_ids, mentions[members], {"focus": focus}, places))
        return windows


def window_bounds(n_tokens: int, spans: np.ndarray, room: int) -> np.ndarray:
    """Choose the window of each mention.

    Args:
        n_tokens: The number of tokens of the document.
        spans: The first token of each mention and the one after its last, int64 [m, 2].
        room: The maximum number of tokens of a window, without special tokens, and of a mention.

    Returns:
        The first token of each window and the one after its last, int64 [m, 2].
    """
    firsts, length = np.zeros(1, dtype=np.int64), n_tokens
    if n_tokens > room:
        overlap = int(OVERLAP * room)
        count = -(-(n_tokens - overlap) // (room - overlap))
        length = -(-(n_tokens + (count - 1) * overlap) // count)
        firsts = np.arange(count) * (n_tokens - length) // (count - 1)
    # The window with the nearest centre leaves the most context on the narrower side of the mention.
    doubled = spans.sum(axis=1)
    nearest = firsts[np.searchsorted(firsts[1:] + firsts[:-1] + length, doubled)]
    bounds = np.stack([nearest, nearest + length], axis=1)
    split = (spans[:, 0] < bounds[:, 0]) | (bounds[:, 1] < spans[:, 1])
    centred = np.clip((doubled - room) // 2, 0, max(0, n_tokens - room))
    bounds[split] = np.stack([centred, centred + room], axis=1)[split]
    return bounds


class DocumentSpans(NamedTuple):
    """The mentions of a document as spans of its tokens."""

    document: DocumentContext
    mentions: np.ndarray  # int64 [m], the positions of the mentions in the batch
    spans: np.ndarray  # int64 [m, 2], the first token of each and the one after its last


class SharedStatesReader:
    """Reads mentions from the states of their documents (``DocumentContext.states``)."""

    reads_documents = True

    def __init__(self, tokenizer: Tokenizer | None = None, position_limit: int = 0):
        """Ignore the tokenizer of the entity encoder: the states are those of other tokens."""

    def inputs(self, mentions: Sequence[MentionInContext]) -> list[DocumentSpans]:
        """Return the mentions of each document with all tokens that they touch, or the nearest one.

        Raises:
            PelError: A document has no states.
        """
        members: dict[DocumentContext | None, list[int]] = {}
        for place, mention in enumerate(mentions):
            members.setdefault(mention.document, []).append(place)
        documents = []
        for document, places in members.items():
            if document is None or document.offsets is None:
                problem = "the linker reads the states of an earlier component, which is missing"
                raise PelError(problem, "load the whole pipeline, spacy.load(FOLDER)")
            starts, ends = document.offsets.T
            first = np.searchsorted(ends, [mentions[i].start for i in places], side="right")
            last = np.searchsorted(starts, [mentions[i].end for i in places], side="left")
            first = np.minimum(first, len(starts) - 1)
            spans = np.stack([first, np.maximum(last, first + 1)], axis=1)
            documents.append(DocumentSpans(document, np.array(places), spans))
        return documents
