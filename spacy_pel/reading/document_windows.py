"""Documents as the encoder reads them once for all their mentions: windows of token ids.

    window:  [CLS] tokens [SEP]

No token is inserted, so that a mention's tokens are those of the text. What stands in a mention, in
any of them, is marked. Knows tokenizers and numpy, as ``inputs`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .inputs import InputBuilder, MentionInContext, pad_ids

# Of the tokens of a window, the least share that the next one has as well.
OVERLAP = 0.25


class Window(NamedTuple):
    """A piece of a document, and the mentions that are read in it.

    ids: int32 [t]. marked: bool [t], true in mentions, also in those that other windows own.
    mentions: int64 [m], which of the mentions given these are. spans: int64 [m, 2], the tokens of
    each: its first one and the one behind its last.
    """

    ids: np.ndarray
    marked: np.ndarray
    mentions: np.ndarray
    spans: np.ndarray


class WindowBatch(NamedTuple):
    """Padded windows. ``ids``: int64 [n, t]; ``mask``, ``focus``: bool [n, t], true where there is
    a token, and where it is marked; ``spans``: int64 [m, 2], the mentions of one window after the
    other, counted in the tokens of all rows, padding included."""

    ids: np.ndarray
    mask: np.ndarray
    focus: np.ndarray
    spans: np.ndarray


class WindowBuilder(InputBuilder):
    """An ``InputBuilder`` whose mentions are read in the windows of their documents.

    ``mention_length`` is the most tokens of a window, special tokens counted.
    """

    def mentions(  # type: ignore[override]
        self, mentions: Sequence[MentionInContext]
    ) -> list[Window]:
        """Windows that have each of the mentions whole, and in one of them alone.

        Mentions are of one document if they have their text in common, the very same object: two
        documents of equal texts may have different mentions. A document is cut into windows of
        one length, as few as can be, that overlap. A mention is read in that one where it is
        farthest from the edges, and one that is whole in none of them in a window of its own, with
        the mention in its midst; of one that is longer than a window its beginning is read.
        Windows that no mention is read in are left out.

        A text is tokenised once, split where a mention begins or ends. A mention without a token
        is read from its whole window.
        """
        texts, boundaries, members = {}, {}, {}
        for place, (text, start, end) in enumerate(mentions):
            texts[id(text)] = text
            boundaries.setdefault(id(text), {0, len(text)}).update((start, end))
            members.setdefault(id(text), []).append(place)
        windows = []
        for key, (ids, token_at) in self._tokenise_at(texts, boundaries).items():
            spans = [(token_at[mentions[i].start], token_at[mentions[i].end]) for i in members[key]]
            windows += self._windows(ids, np.array(spans), np.array(members[key]))
        return windows

    def _windows(self, ids: np.ndarray, spans: np.ndarray, mentions: np.ndarray) -> list[Window]:
        """The windows of one document. ids: int32 [t]; spans: int64 [m, 2]; mentions: int64 [m]."""
        marked = _inside(spans, len(ids))
        room = self.mention_length - 2
        spans[:, 1] = np.minimum(spans[:, 1], spans[:, 0] + room)
        bounds = window_bounds(len(ids), spans, room)
        order = np.lexsort(bounds.T)
        parts = np.flatnonzero(np.diff(bounds[order], axis=0).any(axis=1)) + 1
        windows = []
        for members in np.split(order, parts):
            first, last = bounds[members[0]]
            places = spans[members] - first + 1
            places[places[:, 0] == places[:, 1]] = 0, last - first + 2
            inner = slice(first, last)
            windows.append(
                Window(
                    np.concatenate([[self._cls], ids[inner], [self._sep]]).astype(np.int32),
                    np.concatenate([[False], marked[inner], [False]]),
                    mentions[members],
                    places,
                )
            )
        return windows


def window_bounds(n_tokens: int, spans: np.ndarray, room: int) -> np.ndarray:
    """The window of each mention: int64 [m, 2], its first token and the one behind its last.

    n_tokens: of the document. spans: int64 [m, 2], the tokens of the mentions, of which none has
    more than ``room``, the most tokens of a window.
    """
    firsts, length = _laid(n_tokens, room)
    # The window whose centre is nearest is the one that leaves most on the mention's narrower side.
    doubled = spans.sum(axis=1)
    nearest = firsts[np.searchsorted(firsts[1:] + firsts[:-1] + length, doubled)]
    bounds = np.stack([nearest, nearest + length], axis=1)
    split = (spans[:, 0] < bounds[:, 0]) | (bounds[:, 1] < spans[:, 1])
    own = np.clip((doubled - room) // 2, 0, max(0, n_tokens - room))
    bounds[split] = np.stack([own, own + room], axis=1)[split]
    return bounds


def pad_windows(windows: Sequence[Window], pad_id: int, least: int = 0) -> WindowBatch:
    """The windows as one padded batch, of at least ``least`` tokens in all."""
    ids, mask = pad_ids([window.ids for window in windows], pad_id, least)
    focus = np.zeros_like(mask)
    focus[mask] = np.concatenate([window.marked for window in windows])
    width = mask.shape[1]
    spans = [row * width + window.spans for row, window in enumerate(windows)]
    return WindowBatch(ids, mask, focus, np.concatenate(spans))


def _laid(n_tokens: int, room: int) -> tuple[np.ndarray, int]:
    """Where the windows of a document begin, int64 [k], ascending, and how long all of them are."""
    if n_tokens <= room:
        return np.zeros(1, dtype=np.int64), n_tokens
    overlap = int(OVERLAP * room)
    count = -(-(n_tokens - overlap) // (room - overlap))
    length = -(-(n_tokens + (count - 1) * overlap) // count)
    return np.arange(count) * (n_tokens - length) // (count - 1), length


def _inside(spans: np.ndarray, n_tokens: int) -> np.ndarray:
    """bool [n_tokens]: which tokens are in any of the spans."""
    opened = np.bincount(spans[:, 0], minlength=n_tokens + 1)
    closed = np.bincount(spans[:, 1], minlength=n_tokens + 1)
    return (opened - closed).cumsum()[:n_tokens] > 0
