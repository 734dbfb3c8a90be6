"""The search for candidates: the entities nearest to the vectors of mentions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..kb.knowledge_base import SearchFilter
from ..kb.vectors.index import Candidates

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
    """Search the k nearest entities of each vector, best first.

    Args:
        index: What is searched.
        vectors: float32 [n, d].
        k: The number of candidates of each vector.
        filters: For each vector the filter of its search, or None for no filter. Vectors of the
            same filter are searched together.
        groups: int [n], the group of each vector. A group is searched once, with the mean of its
            vectors and the filter of its first member. The scores of the mean vector are the means
            of the members' scores.
    """
    if groups is not None:
        _, first, members = np.unique(groups, return_index=True, return_inverse=True)
        of_groups = None if filters is None else [filters[mention] for mention in first]
        found = nearest(index, group_means(vectors, groups)[first], k, of_groups)
        return Candidates(found.numbers[members], found.scores[members])
    if filters is None:
        return index.search(vectors, k)
    numbers = np.empty((len(vectors), k), dtype=np.int64)
    scores = np.empty((len(vectors), k), dtype=np.float32)
    for own in dict.fromkeys(filters):
        places = [place for place, other in enumerate(filters) if other == own]
        numbers[places], scores[places] = index.search(vectors[places], k, own)
    return Candidates(numbers, scores)


def group_means(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Each of the rows [n, ...] replaced by the mean of the rows of its group, int [n].

    Sums are taken in float64. The dtype of the rows stays.
    """
    _, members, counts = np.unique(groups, return_inverse=True, return_counts=True)
    together = rows[np.argsort(members, kind="stable")]
    sums = np.add.reduceat(together, counts.cumsum() - counts, dtype=np.float64)
    return (sums / counts[:, None]).astype(rows.dtype)[members]
