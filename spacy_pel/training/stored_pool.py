"""The proxies of a KB as they are stored, for training that does not change them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import PelError
from .negatives import Row
from .row_pool import RowPool


class StoredPool(RowPool):
    """Chooses proxies among the vectors of an embedded KB, whose index is always up to date.

    Args:
        kb, row_kind, name_dropout: see ``RowPool``.
    """

    def refresh_every(self, steps: int) -> None:
        """Do nothing: the vectors do not change."""

    def hard_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """Search the whole KB for hard negatives.

        Args:
            vectors: the mentions, float32 [m, d].
            golds: the gold entities of each mention, which are left out.
            n: the number of entities for each mention.

        Returns:
            For each mention the n entities that score highest, best first. Each is given by the
            row that scores highest.
        """
        if n == 0:
            return [[] for _ in golds]
        found = self.kb.search(vectors, n + max(map(len, golds), default=0)).numbers
        wrong = [
            [entity for entity in row if entity >= 0 and entity not in gold][:n]
            for row, gold in zip(found.tolist(), golds)
        ]
        stored = self._vectors_of({entity for entities in wrong for entity in entities})
        return [
            [Row(entity, int(np.argmax(stored[entity] @ vector))) for entity in entities]
            for vector, entities in zip(vectors, wrong)
        ]

    def vectors(self, rows: Sequence[Row]) -> np.ndarray:
        """The vectors of the rows.

        Returns:
            float32 [n, dim].

        Raises:
            PelError: an entity has no vectors.
        """
        of_entity = self._vectors_of({row.entity for row in rows})
        return np.stack([of_entity[row.entity][row.name] for row in rows])

    def _vectors_of(self, entities: set[int]) -> dict[int, np.ndarray]:
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
