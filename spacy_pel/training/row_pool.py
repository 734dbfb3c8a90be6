"""Which rows of the KB stand for entities in training."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from .negatives import Row


class RowPool:
    """Chooses rows of a KB; what their vectors are is a subclass' business.

    row_kind: see ``proxies``. name_dropout: each alias is hidden with this probability when a
    positive is chosen, lest the encoder learn to match strings alone.
    """

    def __init__(self, kb: KnowledgeBase, row_kind: str, name_dropout: float):
        self.kb = kb
        self.row_kind = row_kind
        self.name_dropout = name_dropout
        self._drawn = kb.numbers()

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        """n rows: an entity drawn uniformly from the whole KB, then one of its rows."""
        numbers = self._drawn[rng.integers(len(self._drawn), size=n)].tolist()
        counts = [self._row_count(number) for number in numbers]
        return [Row(e, int(rng.integers(count))) for e, count in zip(numbers, counts)]

    def positive_row(self, mention: str, entity: int, rng: np.random.Generator) -> Row:
        """The entity's row whose name is most like the mention, among those not hidden."""
        if self.row_kind == "entity":
            return Row(entity, 0)
        names = self.kb.entities([entity])[0].names
        hidden = rng.random(len(names)) < self.name_dropout
        hidden[0] = False
        likeness = [-1.0 if h else _likeness(mention, name) for h, name in zip(hidden, names)]
        return Row(entity, int(np.argmax(likeness)))

    def _row_count(self, number: int) -> int:
        return 1 if self.row_kind == "entity" else len(self.kb.entities([number])[0].names)


def _likeness(a: str, b: str) -> float:
    """Jaccard index of the character trigrams of two names, case ignored."""
    x, y = _trigrams(a), _trigrams(b)
    return len(x & y) / len(x | y)


@lru_cache(maxsize=20_000)
def _trigrams(name: str) -> frozenset[str]:
    padded = f"  {name.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))
