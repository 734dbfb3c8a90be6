"""The search for candidates: the entities nearest to the vectors of mentions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..kb.search_filter import SearchFilter
from ..kb.vectors.index import Candidates
from .mention_groups import group_means

# The number of candidates searched for a mention, at least, where exact names count and in
# evaluations. It is the same in both, so that what is evaluated is what is linked.
SEARCH_DEPTH = 64


class Searchable(Protocol):
    """A knowledge base, or an index in memory."""

    def search(
        self, vectors: np.ndarray, k: int, only: SearchFilter | None = None
    ) -> Candidates: ...


def nearest(
    index: Searchable,
    vectors: np.ndarray,
    k: int,
    filters: Sequence[SearchFilter | None] | None = None,
    groups: np.ndarray | None = None,
) -> Candidates:
    """Search the k nearest entities of each vector.

    Args:
        index: What is searched.
        vectors: float32 [n, d].
        k: The number of candidates of each vector.
        filters: For each vector the filter of its search, or None for no filter. Vectors of the
            same filter are searched together.
        groups: int [n], the group of each vector. A group is searched once, with the mean of its
            vectors and the filter of its first member. The scores of the mean vector are the means
            of the members' scores.

    Returns:
        Numbers int64 [n, k] and scores float32 [n, k], best first.
    """
    if groups is None:
        return _nearest_filtered(index, vectors, k, filters)
    _, first, members = np.unique(groups, return_index=True, return_inverse=True)
    of_groups = None if filters is None else [filters[mention] for mention in first]
    found = _nearest_filtered(index, group_means(vectors, groups)[first], k, of_groups)
    return Candidates(found.numbers[members], found.scores[members])


def _nearest_filtered(
    index: Searchable,
    vectors: np.ndarray,
    k: int,
    filters: Sequence[SearchFilter | None] | None,
) -> Candidates:
    """The k nearest entities of each vector, with one search for each distinct filter."""
    if filters is None:
        return index.search(vectors, k)
    numbers = np.empty((len(vectors), k), dtype=np.int64)
    scores = np.empty((len(vectors), k), dtype=np.float32)
    for own in dict.fromkeys(filters):
        places = [place for place, other in enumerate(filters) if other == own]
        numbers[places], scores[places] = index.search(vectors[places], k, own)
    return Candidates(numbers, scores)
