"""The proxies of a KB as they are stored: for training that leaves them as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import PelError
from .negatives import Row
from .row_pool import RowPool


class StoredPool(RowPool):
    """Chooses proxies among the vectors of an embedded KB. Its index is always up to date."""

    def refresh_every(self, steps: int) -> None:
        """Nothing to do: the vectors stay."""

    def hard_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """For each mention, the best row of the n best entities of the KB that are not its gold."""
        if n == 0:
            return [[] for _ in golds]
        found = self.kb.search(vectors, n + max(map(len, golds), default=0)).numbers
        wrong = [
            [entity for entity in row if entity >= 0 and entity not in gold][:n]
            for row, gold in zip(found.tolist(), golds)
        ]
        rows = self._rows_of({entity for entities in wrong for entity in entities})
        return [
            [Row(entity, int(np.argmax(rows[entity] @ vector))) for entity in entities]
            for vector, entities in zip(vectors, wrong)
        ]

    def vectors(self, rows: Sequence[Row]) -> np.ndarray:
        """Those of the rows: float32 [n, dim]. Raises PelError for an entity without vectors."""
        of_entity = self._rows_of({row.entity for row in rows})
        return np.stack([of_entity[row.entity][row.name] for row in rows])

    def _rows_of(self, entities: set[int]) -> dict[int, np.ndarray]:
        """The vectors of each entity, float32 [rows, dim]."""
        numbers = np.array(sorted(entities), dtype=np.int64)
        vectors, owners = self.kb.rows(numbers)
        counts = np.bincount(owners, minlength=len(numbers))
        if not counts.all():
            id = self.kb.labels(numbers[counts == 0][:1])[0][0]
            raise PelError(
                f"{self.kb.path}: {id} has no vectors",
                f"run: python -m spacy pel kb embed {self.kb.path} PIPELINE",
            )
        return dict(zip(numbers.tolist(), np.split(vectors, np.cumsum(counts)[:-1])))
