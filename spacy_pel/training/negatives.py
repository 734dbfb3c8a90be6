"""Which proxies a batch of mentions is trained against (PEL, section 5.3.1).

A proxy is named by ``Row(entity, name)``: the number of its entity and the position of the name
that makes it (0 where an entity has one row). Every sampler gives the rows of a batch and says
which of them are negatives of which mention. A gold entity of a mention is never its negative,
whatever name or alternative id it is reached by, since all of them have one number.
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..errors import PelError
from ..models.losses import Targets


class Row(NamedTuple):
    """One proxy: the ``name``-th row of an entity."""

    entity: int
    name: int


class Batch(NamedTuple):
    """The mentions of one step.

    positives: the row of each mention's gold entity. golds: all its gold entities.
    vectors: float32 [n, d], of the mentions, under the present weights.
    """

    positives: Sequence[Row]
    golds: Sequence[frozenset[int]]
    vectors: np.ndarray


class Pool(Protocol):
    """Where negatives come from."""

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        """n rows of entities drawn uniformly from the KB."""

    def hard_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """For each mention, the best row of the n best entities that are not its gold."""

    def refresh_every(self, steps: int) -> None:
        """Encode the index again if ``steps`` updates have passed since it last was."""


Sampler = Callable[[Batch, Pool, np.random.Generator], tuple[list[Row], Targets]]


class RandomNegatives:
    """n entities drawn uniformly from the KB, anew for each batch and shared by its mentions.

    in_batch: also the positives of the batch's other mentions, which are encoded anyway.
    """

    def __init__(self, n: int = 32, in_batch: bool = False):
        self.n = _at_least("n", n, 0)
        self.in_batch = in_batch

    def __call__(
        self, batch: Batch, pool: Pool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        common = pool.random_rows(self.n, rng)
        return arrange(batch, common, [[]] * len(batch.golds), self.in_batch)


class InBatchNegatives:
    """The positives of the other mentions of the batch."""

    def __call__(
        self, batch: Batch, pool: Pool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        return arrange(batch, [], [[]] * len(batch.golds), in_batch=True)


class MixedNegatives:
    """Mixed-p: a share p of n negatives is hard, the rest random.

    The hard ones of a mention are the entities that the index, encoded again every ``refresh``
    updates, ranks highest for it under its present vector; the random ones are shared.

    in_batch: what the batch encodes for one mention is a negative of the others, too.
    """

    def __init__(self, n: int = 32, p: float = 0.5, refresh: int = 500, in_batch: bool = False):
        if not 0.0 <= p <= 1.0:
            raise PelError(f"the share p of hard negatives is {p}", "choose it between 0 and 1")
        self.hard = round(p * _at_least("n", n, 0))
        self.random = n - self.hard
        self.refresh = _at_least("refresh", refresh, 1)
        self.in_batch = in_batch

    def __call__(
        self, batch: Batch, pool: Pool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        if self.hard:
            pool.refresh_every(self.refresh)
        hard = pool.hard_rows(batch.vectors, batch.golds, self.hard)
        return arrange(batch, pool.random_rows(self.random, rng), hard, self.in_batch)


def arrange(
    batch: Batch, common: Sequence[Row], own: Sequence[Sequence[Row]], in_batch: bool
) -> tuple[list[Row], Targets]:
    """The distinct rows of a batch, and what each mention should think of each.

    common: negatives of every mention. own: negatives of each mention. in_batch: every row is a
    negative of every mention. A mention's golds are taken out in the end.
    """
    distinct = dict.fromkeys([*batch.positives, *common, *(row for rows in own for row in rows)])
    column = {row: i for i, row in enumerate(distinct)}
    negatives = np.full((len(batch.golds), len(column)), in_batch, dtype=bool)
    negatives[:, [column[row] for row in common]] = True
    for mask, rows in zip(negatives, own):
        mask[[column[row] for row in rows]] = True
    entities = np.array([row.entity for row in column])
    for mask, golds in zip(negatives, batch.golds):
        mask[np.isin(entities, list(golds))] = False
    positive = np.array([column[row] for row in batch.positives], dtype=np.int64)
    return list(column), Targets(positive, negatives)


def _at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise PelError(f"{name} of a negative sampler is {value}", f"it must be {least} or more")
    return value
