"""Search over all segments of a KB. The answer is that of one index over all of them."""

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
    """The k best entities of each query, sorted by score, then by concept id.

    Args:
        segments: The segments of the KB.
        vectors: The queries, float32 [n, dim].
        k: The number of candidates for each query.
        allowed: For each segment booleans [count]: which of its entities may be found. None allows
            all of them.

    Returns:
        Candidates, with the numbers that entities have in the KB.

    Raises:
        PelError: As ``VectorIndex.search`` does.
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
    sort_ties(segments, numbers, scores)
    return Candidates(numbers[:, :k], scores[:, :k])


def _renumbered(found: Candidates, first: int) -> Candidates:
    """The candidates of a segment, with the numbers that they have in the KB."""
    return Candidates(np.where(found.numbers < 0, -1, found.numbers + first), found.scores)


def sort_ties(segments: Sequence[Segment], numbers: np.ndarray, scores: np.ndarray) -> None:
    """Sorts the equal scores of each query by concept id, in place.

    Within a segment they must be sorted already. So ids are read only where segments meet.
    """
    owners = np.searchsorted([segment.first for segment in segments], numbers, side="right") - 1
    same = (scores[:, 1:] == scores[:, :-1]) & (numbers[:, 1:] >= 0)
    meet = same & (owners[:, 1:] != owners[:, :-1])
    for query in np.flatnonzero(meet.any(axis=1)):
        run = np.concatenate([[0], np.cumsum(~same[query])])  # the run of equal scores of a place
        places = np.flatnonzero(np.isin(run, run[1:][meet[query]]))
        ids = _ids(segments, numbers[query, places], owners[query, places])
        order = sorted(range(len(places)), key=lambda i: (run[places[i]], ids[i]))
        numbers[query, places] = numbers[query, places[order]]


def _ids(segments: Sequence[Segment], numbers: np.ndarray, owners: np.ndarray) -> list[str]:
    """The concept ids of these numbers of the KB, whose segments are the owners."""
    ids = np.empty(len(numbers), dtype=object)
    for owner in np.unique(owners):
        own = owners == owner
        segment = segments[owner]
        ids[own] = [id for id, _ in segment.store.labels(numbers[own] - segment.first)]
    return ids.tolist()
