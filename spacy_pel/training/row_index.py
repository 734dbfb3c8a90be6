"""Encoded rows of entities that can be searched for entities or for rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kb.vectors.index import Candidates, VectorIndex
from .negatives import Row


class RowIndex:
    """Rows of entities in memory, which know which of the entity's rows they are.

    Args:
        vectors: the rows, float32 [n, d]. The rows of an entity stand side by side.
        owners: the number of the entity of each row, int64 [n], ascending.
    """

    def __init__(self, vectors: np.ndarray, owners: np.ndarray):
        self._index = VectorIndex.from_vectors(vectors, owners)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        # For each row the first row of its entity, int64 [n].
        self._first_row = np.repeat(starts, np.diff(starts, append=len(owners)))

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Candidates:
        """The k best entities of each query; see ``VectorIndex.search``."""
        return self._index.search(vectors, k, allowed)

    def best_rows(
        self, vectors: np.ndarray, left_out: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """The best row of each of the best entities.

        Args:
            vectors: the queries, float32 [m, d].
            left_out: the entities that a query must not find.
            n: the number of entities for each query.

        Returns:
            For each query up to n rows of distinct entities, best first. There are fewer if
            the nearest 16 n rows belong to fewer entities.
        """
        # The names of one entity crowd together, so more than n rows are read.
        nearest = self._index.nearest_rows(vectors, 16 * n)
        owners = self._index.row_entities[nearest]
        return [
            self._of_distinct_entities(rows.tolist(), entities.tolist(), unwanted, n)
            for rows, entities, unwanted in zip(nearest, owners, left_out)
        ]

    def _of_distinct_entities(
        self, rows: list[int], entities: list[int], left_out: frozenset[int], n: int
    ) -> list[Row]:
        """The first row of each of the first n entities that are not left out."""
        best: dict[int, Row] = {}
        for row, entity in zip(rows, entities):
            if entity not in left_out and entity not in best:
                best[entity] = Row(entity, row - int(self._first_row[row]))
                if len(best) == n:
                    break
        return list(best.values())
