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
from .pool import Pool, Row


class Batch(NamedTuple):
    """The mentions of one step."""

    positives: Sequence[Row]  # the row of each mention's gold entity
    golds: Sequence[frozenset[int]]  # all gold entities of each mention
    vectors: np.ndarray  # under the present weights, float32 [n, d]


# From a batch to the rows it is trained against, and which of them are negatives of which mention.
Sampler = Callable[[Batch, Pool, np.random.Generator], tuple[list[Row], Targets]]


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
        shared: whether the mentions of a batch share the random ones. If not, some are drawn for
            each mention, and a step encodes that many times as many.
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
        at_least("a negative sampler", n=(n, 0), refresh=(refresh, 1))
        self.hard = round(p * n)
        self.random = n - self.hard
        self.refresh = refresh
        self.in_batch = in_batch
        self.shared = shared

    def __call__(
        self, batch: Batch, pool: Pool, rng: np.random.Generator
    ) -> tuple[list[Row], Targets]:
        """The distinct rows, and for each mention the columns of its positive and its negatives."""
        own: list[list[Row]] = [[] for _ in batch.golds]
        if self.hard:
            pool.refresh_every(self.refresh)
            own = pool.mined.best_rows(batch.vectors, batch.golds, self.hard)
        common = []
        if self.shared:
            common = pool.random_rows(self.random, rng)
        else:
            drawn = iter(pool.random_rows(self.random * len(own), rng))
            own = [[*rows, *(next(drawn) for _ in range(self.random))] for rows in own]

        distinct = dict.fromkeys(
            [*batch.positives, *common, *(row for rows in own for row in rows)]
        )
        column = {row: i for i, row in enumerate(distinct)}
        negatives = np.full((len(own), len(column)), self.in_batch, dtype=bool)
        negatives[:, [column[row] for row in common]] = True
        entities = np.array([row.entity for row in column])
        for mask, rows, golds in zip(negatives, own, batch.golds):
            mask[[column[row] for row in rows]] = True
            mask[np.isin(entities, list(golds))] = False
        positive = np.array([column[row] for row in batch.positives], dtype=np.int64)
        return list(column), Targets(positive, negatives)


def random_negatives(n: int = 32, in_batch: bool = False, shared: bool = True) -> MixedNegatives:
    """n entities drawn uniformly from the KB for each batch; arguments as of ``MixedNegatives``."""
    return MixedNegatives(n, 0.0, in_batch=in_batch, shared=shared)


def in_batch_negatives() -> MixedNegatives:
    """The positives of the other mentions of the batch."""
    return MixedNegatives(0, in_batch=True)


def at_least(what: str, **settings: tuple[int, int]) -> None:
    """Raise PelError if one of some settings, given with the least that each may be, is below that."""
    for name, (value, least) in settings.items():
        if value < least:
            raise PelError(f"{name} of {what} is {value}", f"it must be {least} or more")
