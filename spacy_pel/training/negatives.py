"""Sample the negatives of a batch of mentions (PEL, section 5.3.1).

A gold entity of a mention is never its negative: all its names and alternative ids have the same number.
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..models.losses import Targets
from .pool import NegativePool, Row


class Batch(NamedTuple):
    """The mentions of one step."""

    positives: Sequence[Row]  # the row of each mention's gold entity
    golds: Sequence[frozenset[int]]  # all gold entities of each mention
    vectors: np.ndarray  # under the current weights, float32 [n, d]


# Returns the rows for a batch, and the targets of its mentions among them.
Sampler = Callable[[Batch, NegativePool, np.random.Generator], tuple[list[Row], Targets]]


class MixedNegatives:
    """Mixed-p negatives: a fraction p is hard, the rest random.

    The hard negatives of a mention are the entities that an index ranks highest for its current vector.

    Args:
        n: The number of negatives per mention.
        p: The fraction of hard negatives, between 0 and 1.
        refresh: The number of updates after which the index is encoded again.
        in_batch: Use all rows of a batch as negatives of every mention.
        shared: Share the random negatives among the mentions of a batch. Otherwise each mention draws its
            own, and a step encodes n times as many.
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
            raise PelError(f"the fraction p of hard negatives is {p}", "choose a value from 0 to 1")
        check_minimum("a negative sampler", n=(n, 0), refresh=(refresh, 1))
        self.hard = round(p * n)
        self.random = n - self.hard
        self.refresh = refresh
        self.in_batch = in_batch
        self.shared = shared

    def __call__(
        self, batch: Batch, pool: NegativePool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        """Return the distinct rows, and the columns of each mention's positive and negatives."""
        by_mention: list[list[Row]] = [[] for _ in batch.golds]
        if self.hard:
            pool.refresh_every(self.refresh)
            by_mention = pool.mined.best_rows(batch.vectors, batch.golds, self.hard)
        common = []
        if self.shared:
            common = pool.random_rows(self.random, rng)
        else:
            sample = iter(pool.random_rows(self.random * len(by_mention), rng))
            by_mention = [[*rows, *islice(sample, self.random)] for rows in by_mention]

        distinct = dict.fromkeys([*batch.positives, *common, *chain.from_iterable(by_mention)])
        column = {row: i for i, row in enumerate(distinct)}
        negatives = np.full((len(by_mention), len(column)), self.in_batch, dtype=bool)
        negatives[:, [column[row] for row in common]] = True
        entities = np.array([row.entity for row in column])
        for mask, rows, golds in zip(negatives, by_mention, batch.golds):
            mask[[column[row] for row in rows]] = True
            mask[np.isin(entities, list(golds))] = False
        positive = np.array([column[row] for row in batch.positives], dtype=np.int64)
        return list(column), Targets(positive, negatives)


def random_negatives(n: int = 32, in_batch: bool = False, shared: bool = True) -> MixedNegatives:
    """Draw n entities uniformly from the KB for each batch (``MixedNegatives``)."""
    return MixedNegatives(n, 0.0, in_batch=in_batch, shared=shared)


def in_batch_negatives() -> MixedNegatives:
    """Use the positives of the other mentions of the batch."""
    return MixedNegatives(0, in_batch=True)


def check_minimum(what: str, **settings: tuple[int, int]) -> None:
    """Raise PelError if a setting, given as (value, minimum), is below its minimum."""
    for name, (value, minimum) in settings.items():
        if value < minimum:
            raise PelError(f"{name} of {what} is {value}", f"set it to {minimum} or more")
