"""Which rows of the KB stand for entities in training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..reading.proxies import SINGLE_ROWS
from .negatives import Row


class RowPool:
    """Chooses rows of a KB. Subclasses know the vectors of the rows.

    Args:
        kb: the knowledge base.
        row_kind: what a row stands for; see ``reading.proxies``.
        name_dropout: the probability that an alias is hidden when a positive is chosen. It keeps
            the encoder from learning nothing but to match strings.
    """

    def __init__(self, kb: KnowledgeBase, row_kind: str, name_dropout: float):
        self.kb = kb
        self.row_kind = row_kind
        self.name_dropout = name_dropout
        self._entities = kb.numbers()

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        """Draw n rows: first an entity, uniformly from the whole KB, then one of its rows."""
        entities = self._entities[rng.integers(len(self._entities), size=n)].tolist()
        counts = self._row_counts(entities)
        return [Row(entity, int(rng.integers(count))) for entity, count in zip(entities, counts)]

    def positive_rows(
        self, surfaces: Sequence[str], entities: Sequence[int], rng: np.random.Generator
    ) -> list[Row]:
        """The row of each mention's entity whose name is most like the mention.

        Args:
            surfaces: the words of the mentions.
            entities: the number of the gold entity of each mention.
            rng: draws which aliases are hidden. Canonical names never are.

        Returns:
            One row for each mention.
        """
        if self.row_kind in SINGLE_ROWS:
            return [Row(entity, 0) for entity in entities]
        return [
            Row(number, self._most_like(surface, entity.names, rng))
            for number, surface, entity in zip(entities, surfaces, self.kb.entities(entities))
        ]

    def _most_like(self, surface: str, names: Sequence[str], rng: np.random.Generator) -> int:
        """The position of the name that is most like the surface, among those not hidden."""
        hidden = rng.random(len(names)) < self.name_dropout
        hidden[0] = False
        likeness = [-1.0 if h else _likeness(surface, name) for h, name in zip(hidden, names)]
        return int(np.argmax(likeness))

    def _row_counts(self, entities: Sequence[int]) -> list[int]:
        """The number of rows of each entity."""
        if self.row_kind in SINGLE_ROWS:
            return [1] * len(entities)
        return [len(entity.names) for entity in self.kb.entities(entities)]


def _likeness(a: str, b: str) -> float:
    """Jaccard index of the character trigrams of two names, ignoring case."""
    x, y = _trigrams(a), _trigrams(b)
    return len(x & y) / len(x | y)


@lru_cache(maxsize=20_000)
def _trigrams(name: str) -> frozenset[str]:
    padded = f"  {name.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))
