"""Documents that are read once for all their mentions: windows of token ids.

    window:  [CLS] tokens [SEP]

No token is inserted, so a mention has the tokens of the text. Every token that stands in a mention
is marked, whichever mention it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer

from .mention import DocumentContext, MentionInContext
from .text_inputs import Window, WindowInputs
from .word_pieces import WordPieces

# The least share of the tokens of a window that the next window has as well.
OVERLAP = 0.25


class WindowReader:
    """Reads mentions in windows of at most ``length`` tokens, special tokens included."""

    reads_documents = True

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        self._pieces = WordPieces(tokenizer)

    def inputs(self, mentions: Sequence[MentionInContext]) -> WindowInputs:
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
        return WindowInputs(windows)

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
