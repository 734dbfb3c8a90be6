"""Search over the segments of a KB: the answer that one index over all of them would give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .segment import Segment
from .vectors.index import Candidates


def search_segments(
    segments: Sequence[Segment],
    vectors: np.ndarray,
    k: int,
    allowed: Sequence[np.ndarray | None],
) -> Candidates:
    """The k best entities of each query, float32 [n, dim], by score, then by concept id.

    allowed: for each segment booleans [count], which of its entities may be found; None for all.
    Numbers are those of the KB. Raises PelError as ``VectorIndex.search`` does.
    """
    found = [
        _renumbered(segment.index.search(vectors, k, allowed=mask), segment.first)
        for segment, mask in zip(segments, allowed)
        if segment.index is not None
    ]
    if not found:
        empty = (len(vectors), k)
        return Candidates(np.full(empty, -1), np.full(empty, -np.inf, dtype=np.float32))
    if len(found) == 1:
        return found[0]
    numbers = np.concatenate([candidates.numbers for candidates in found], axis=1)
    scores = np.concatenate([candidates.scores for candidates in found], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")
    numbers = np.take_along_axis(numbers, order, axis=1)
    scores = np.take_along_axis(scores, order, axis=1)
    _sort_ties(segments, numbers, scores)
    return Candidates(numbers[:, :k], scores[:, :k])


def _renumbered(found: Candidates, first: int) -> Candidates:
    return Candidates(np.where(found.numbers < 0, -1, found.numbers + first), found.scores)


def _sort_ties(segments: Sequence[Segment], numbers: np.ndarray, scores: np.ndarray) -> None:
    """Puts equal scores of one query in order of concept id, in place.

    Within a segment they are so already, and ids are read only where segments meet.
    """
    owners = np.searchsorted([segment.first for segment in segments], numbers, side="right") - 1
    same = (scores[:, 1:] == scores[:, :-1]) & (numbers[:, 1:] >= 0)
    meet = same & (owners[:, 1:] != owners[:, :-1])
    for query in np.flatnonzero(meet.any(axis=1)):
        run = np.concatenate([[0], np.cumsum(~same[query])])  # which run of equals a place is in
        places = np.flatnonzero(np.isin(run, run[1:][meet[query]]))
        ids = _ids(segments, numbers[query, places], owners[query, places])
        order = sorted(range(len(places)), key=lambda i: (run[places[i]], ids[i]))
        numbers[query, places] = numbers[query, places[order]]


def _ids(segments: Sequence[Segment], numbers: np.ndarray, owners: np.ndarray) -> list[str]:
    ids = np.empty(len(numbers), dtype=object)
    for owner in np.unique(owners):
        own = owners == owner
        segment = segments[owner]
        ids[own] = [id for id, _ in segment.store.labels(numbers[own] - segment.first)]
    return ids.tolist()
