"""Which proxies a batch of mentions is trained against (PEL, section 5.3.1).

A sampler gives the rows of a batch and says which of them are negatives of which mention. A gold
entity of a mention is never its negative: all its names and alternative ids have the same number.
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..models.losses import Targets
from .index import Row
from .pool import Pool


class Batch(NamedTuple):
    """The mentions of one step."""

    positives: Sequence[Row]  # the row of each mention's gold entity
    golds: Sequence[frozenset[int]]  # all gold entities of each mention
    vectors: np.ndarray  # under the present weights, float32 [n, d]


# From a batch to the rows it is trained against, and which of them are negatives of which mention.
Sampler = Callable[[Batch, Pool, np.random.Generator], tuple[list[Row], Targets]]


class RandomNegatives:
    """n entities drawn uniformly from the KB for each batch.

    Args:
        n: the number of entities that are drawn.
        in_batch: whether all that is encoded for the batch's other mentions is a negative as well.
        shared: whether the mentions of a batch share what is drawn. If not, n entities are drawn
            for each mention, and a step encodes that many times as many.
    """

    def __init__(self, n: int = 32, in_batch: bool = False, shared: bool = True):
        self.n = _at_least("n", n, 0)
        self.in_batch = in_batch
        self.shared = shared

    def __call__(
        self, batch: Batch, pool: Pool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        common, own = _drawn(pool, self.n, len(batch.golds), self.shared, rng)
        return arrange(batch, common, own, self.in_batch)


class InBatchNegatives:
    """The positives of the other mentions of the batch."""

    def __call__(
        self, batch: Batch, pool: Pool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        return arrange(batch, [], [[]] * len(batch.golds), in_batch=True)


class MixedNegatives:
    """Mixed-p: a share p of n negatives is hard, the rest random.

    The hard negatives of a mention are the entities that an index ranks highest for its present
    vector.

    Args:
        n: the number of negatives of a mention.
        p: the share of hard ones, between 0 and 1.
        refresh: the number of updates after which the index is encoded again.
        in_batch: whether all that the batch encodes for one mention is a negative of the others as
            well.
        shared: whether the mentions of a batch share the random ones; see ``RandomNegatives``.
    """

    def __init__(
        self,
        n: int = 32,
        p: float = 0.5,
        refresh: int = 500,
        in_batch: bool = False,
        shared: bool = True,
    ):
        if not 0.0 <= p <= 1.0:
            raise PelError(f"the share p of hard negatives is {p}", "choose it between 0 and 1")
        self.hard = round(p * _at_least("n", n, 0))
        self.random = n - self.hard
        self.refresh = _at_least("refresh", refresh, 1)
        self.in_batch = in_batch
        self.shared = shared

    def __call__(
        self, batch: Batch, pool: Pool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        if self.hard:
            pool.refresh_every(self.refresh)
        hard = pool.hard_rows(batch.vectors, batch.golds, self.hard)
        common, random = _drawn(pool, self.random, len(batch.golds), self.shared, rng)
        own = [[*a, *b] for a, b in zip(hard, random)]
        return arrange(batch, common, own, self.in_batch)


def arrange(
    batch: Batch, common: Sequence[Row], own: Sequence[Sequence[Row]], in_batch: bool
) -> tuple[list[Row], Targets]:
    """Lay out the rows of a batch as columns: the distinct rows, and the targets.

    A mention's gold entities are none of its negatives.

    Args:
        batch: the mentions and their positives.
        common: negatives of every mention.
        own: negatives of each mention.
        in_batch: whether every row is a negative of every mention.
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


def _drawn(
    pool: Pool, n: int, mentions: int, shared: bool, rng: np.random.Generator
) -> tuple[list[Row], list[list[Row]]]:
    """n random rows for all mentions of a batch, or n for each: those of all, those of each."""
    if shared:
        return pool.random_rows(n, rng), [[]] * mentions
    rows = pool.random_rows(n * mentions, rng)
    return [], [rows[n * i : n * (i + 1)] for i in range(mentions)]


def _at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise PelError(f"{name} of a negative sampler is {value}", f"it must be {least} or more")
    return value
