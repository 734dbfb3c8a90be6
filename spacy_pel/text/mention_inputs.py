"""A mention as an encoder is to read it, and the three ways to read one; a new way is a new ``MentionReader``.

- Marked in a text of its own (PEL, appendix A), alone or before an entity (appendix B):

      mention:  [CLS] left [Ms] mention [Me] right [SEP]
      pair:     [CLS] left [Ms] mention [Me] right [SEP] title [SEP] types [SEP] description [SEP]

  A masked mention (see ``training.mention_views``) is read as [MASK].
- In windows of its document, which is read once for all its mentions:

      window:   [CLS] tokens [SEP]

  No token is inserted, so a mention has the tokens of the text. Every token that stands in a mention is
  marked, whichever mention it is.
- From the states that another component gave the tokens of its document.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from tokenizers import Tokenizer

from ..errors import PelError
from .entity_texts import EntityReader
from .token_inputs import EncoderInputs, TokenIds, TokenizedText, Window, WordPieces, text_inputs

# The least share of the tokens of a window that the next window has as well.
OVERLAP = 0.25


@dataclass(eq=False)
class DocumentContext:
    """What the mentions of one document have in common, apart from the text. No two are equal.

    The arrays are there if another component has read the document.
    """

    states: np.ndarray | None = None  # float32 [t, w], those of its tokens
    # int64 [t, 2], the first character of each token and the one after its last, ascending.
    offsets: np.ndarray | None = None
    # float32 [t, w]. Training adds the gradient with respect to the states to it.
    gradient: np.ndarray | None = None


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


class MarkedTextReader:
    """Reads each mention in a text of its own, of ``length`` tokens unless the mention has more."""

    reads_documents = False

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        self._position_limit = position_limit
        self._pieces = WordPieces(tokenizer)

    def inputs(self, mentions: Sequence[MentionInContext]) -> EncoderInputs:
        """One input a mention, in the order of the mentions."""
        return text_inputs(self.tokens(mentions))

    def tokens(self, mentions: Sequence[MentionInContext]) -> list[TokenIds]:
        """The token ids of each mention: ``[CLS] left [Ms] mention [Me] right [SEP]``.

        A mention is cut only if it is longer than the encoder has positions. Both sides of the context
        share the rest of ``length`` evenly. What one side does not use goes to the other.

        A text is tokenised once for all its mentions, split where a mention begins or ends. It is
        tokenised again for a mention that splits a word, as the others need that word whole.
        """
        keys: list[Hashable] = []
        texts: dict[Hashable, tuple[str, set[int]]] = {}
        for mention in mentions:
            text, ends = mention.text, (mention.start, mention.end)
            splits_a_word = any(text[i - 1 : i + 1].isalnum() for i in ends if 0 < i < len(text))
            keys.append(mention if splits_a_word else text)
            texts.setdefault(keys[-1], (text, set()))[1].update(ends)
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


class PairReader:
    """Turns a mention and an entity into one input, for the cross-encoder.

    The mention's side, with its [CLS] and [SEP], takes at most half of the tokens. It is the same
    for all entities. The entity's side takes the rest, and is cut at its end.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        half = self.length // 2
        # These give the token ids of the two sides.
        self.mentions = MarkedTextReader(tokenizer, half, half).tokens
        self.entities = EntityReader(tokenizer, self.length, self.length).tokens

    def pair(self, mention: TokenIds, entity: TokenIds) -> TokenIds:
        """The two sides as one input, whose start and end are those of the entity's side."""
        start = len(mention.ids)
        ids = np.concatenate([mention.ids, entity.ids[1 : 1 + self.length - start]])
        ids[-1] = entity.ids[-1]  # [SEP], also where the entity's side is cut
        return TokenIds(ids, start, len(ids))


class WindowReader:
    """Reads mentions in windows of at most ``length`` tokens, special tokens included."""

    reads_documents = True

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        self._pieces = WordPieces(tokenizer)

    def inputs(self, mentions: Sequence[MentionInContext]) -> EncoderInputs:
        """Cut documents into as few windows as possible, all of one length, that overlap.

        A mention is read in the window where it is farthest from the edges. If no window has the whole
        of it, it gets a window of its own, with the mention in the middle. If it is longer than a
        window, its beginning is read. Windows in which no mention is read are left out.

        A text is tokenised once, split where a mention begins or ends. A mention without a token
        is read from its whole window.
        """
        # Of a document with two texts, each is read by itself.
        members: dict[tuple[DocumentContext | None, str], list[int]] = {}
        for place, mention in enumerate(mentions):
            members.setdefault((mention.document, mention.text), []).append(place)
        texts = {
            key: (key[1], {offset for i in places for offset in mentions[i][1:3]})
            for key, places in members.items()
        }
        windows = []
        for key, (ids, token_at) in self._pieces.tokenize_split(texts).items():
            own = [mentions[i] for i in members[key]]
            spans = [(token_at[mention.start], token_at[mention.end]) for mention in own]
            windows += self._windows(ids, np.array(spans), np.array(members[key]))
        return EncoderInputs(windows)

    def _windows(self, ids: np.ndarray, spans: np.ndarray, mentions: np.ndarray) -> list[Window]:
        """The windows of one document. ids: int32 [t]; spans: int64 [m, 2]; mentions: int64 [m]."""
        # "focus" is on all mentions, also on those that are read in other windows.
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
            framed = [[self._pieces.cls], ids[first:last], [self._pieces.sep]]
            focus = np.concatenate([[False], marked[first:last], [False]])
            window_ids = np.concatenate(framed).astype(np.int32)
            windows.append(Window(window_ids, mentions[members], {"focus": focus}, places))
        return windows


def window_bounds(n_tokens: int, spans: np.ndarray, room: int) -> np.ndarray:
    """Choose the window of each mention: its first token and the one after its last, int64 [m, 2].

    ``spans``, int64 [m, 2], are the tokens of the mentions. Neither a mention nor a window, without its
    special tokens, has more than ``room``.
    """
    firsts, length = np.zeros(1, dtype=np.int64), n_tokens  # of the windows, and of each of them
    if n_tokens > room:
        overlap = int(OVERLAP * room)
        count = -(-(n_tokens - overlap) // (room - overlap))
        length = -(-(n_tokens + (count - 1) * overlap) // count)
        firsts = np.arange(count) * (n_tokens - length) // (count - 1)
    # The window with the nearest centre leaves most context on the mention's narrower side.
    doubled = spans.sum(axis=1)
    nearest = firsts[np.searchsorted(firsts[1:] + firsts[:-1] + length, doubled)]
    bounds = np.stack([nearest, nearest + length], axis=1)
    split = (spans[:, 0] < bounds[:, 0]) | (bounds[:, 1] < spans[:, 1])
    own = np.clip((doubled - room) // 2, 0, max(0, n_tokens - room))
    bounds[split] = np.stack([own, own + room], axis=1)[split]
    return bounds


class DocumentSpans(NamedTuple):
    """The mentions of a document as spans of its tokens."""

    document: DocumentContext
    mentions: np.ndarray  # int64 [m], the places of the mentions among those that were given
    spans: np.ndarray  # int64 [m, 2], the tokens of each: its first one and the one after its last


class SharedStatesReader:
    """Reads mentions from the states that their documents carry (``DocumentContext.states``)."""

    reads_documents = True

    def __init__(self, encoder: object = None):
        """It needs nothing of the encoder of entities."""

    def inputs(self, mentions: Sequence[MentionInContext]) -> list[DocumentSpans]:
        """The mentions of each document, each with all tokens that it touches, or the nearest one.

        PelError if no component gave the tokens of a document any states.
        """
        members: dict[DocumentContext | None, list[int]] = {}
        for place, mention in enumerate(mentions):
            members.setdefault(mention.document, []).append(place)
        documents = []
        for document, places in members.items():
            if document is None or document.states is None:
                problem = "the linker shares what a component before it has read, which is not here"
                raise PelError(problem, "load the whole pipeline, spacy.load(FOLDER)")
            starts, ends = document.offsets.T
            first = np.searchsorted(ends, [mentions[i].start for i in places], side="right")
            last = np.searchsorted(starts, [mentions[i].end for i in places], side="left")
            first = np.minimum(first, len(starts) - 1)
            spans = np.stack([first, np.maximum(last, first + 1)], axis=1)
            documents.append(DocumentSpans(document, np.array(places), spans))
        return documents
