"""Which entities of the types stay in the KB: those that keep the shares seen in train alike."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from .census import Census, MentionKind, split_statistics

SEEN, UNSEEN = 0, 1
ORDERS = 20  # the largest number of random orders that are tried


def kept_in_line(
    train: Census,
    others: Sequence[Census],
    of_types: Collection[str],
    *,
    tolerance: float,
    seed: int,
) -> set[str]:
    """Choose the entities of the types that stay in the KB.

    If all of them are taken out, the shares of NIL mentions and NIL entities that are seen in train
    may differ from the shares of the whole split. As long as one differs by more than the tolerance,
    entities are put back in random order, each if it brings the shares closer. A split keeps at
    least one NIL mention. If an order ends before all shares are close, further orders are tried, and
    the one that comes closest is taken.

    Args:
        train: The train split.
        others: The other splits, whose shares are compared.
        of_types: The entities of the types.
        tolerance: The largest difference allowed between two shares, from 0 to 1.
        seed: The seed for the orders.

    Returns:
        The concept ids of the entities that stay; none where the shares are close from the start.
    """
    wanted = np.array(_whole_shares(train, others))
    rng = np.random.default_rng(seed)
    best, kept = math.inf, set()
    for _ in range(ORDERS):
        tally = _Tally(train, others, of_types)
        order = [str(entity) for entity in rng.permutation(sorted(tally.rows_of))]
        beyond, chosen = _chosen(tally, order, wanted, tolerance)
        if beyond < best:
            best, kept = beyond, chosen
        if not best:
            break
    return kept


def _chosen(
    tally: _Tally, order: Sequence[str], wanted: np.ndarray, tolerance: float
) -> tuple[float, set[str]]:
    """How far the shares still differ, and the entities that stay if they are tried in this order."""
    present = tally.totals.sum(axis=0) > 0
    beyond = _beyond(tally.totals, wanted, present, tolerance)
    kept: set[str] = set()
    found = True
    while beyond and found:
        found = False
        for entity in order:
            left = tally.totals - tally.loss(entity)
            closer = _beyond(left, wanted, present, tolerance)
            if closer < beyond and (left.sum(axis=0) > 0)[present].all():
                tally.keep(entity)
                kept.add(entity)
                beyond, found = closer, True
            if not beyond:
                break
    return beyond, kept


class _Tally:
    """Counts of the mentions that become NIL, while entities are put back one by one.

    Attributes:
        totals: int64 [2, 2 x splits]. The first row counts what is seen in train, the second what is
            not. Each split has a column for mentions and one for distinct entities.
        rows_of: For each entity the kinds of mentions that name it, with their split and number.
    """

    def __init__(self, train: Census, others: Sequence[Census], taken: Collection[str]) -> None:
        self._in_train = train.entities
        self.totals = np.zeros((2, 2 * len(others)), dtype=np.int64)
        self.rows_of: defaultdict[str, set[tuple[int, MentionKind, int]]] = defaultdict(set)
        self._kinds: Counter[tuple[str, int]] = Counter()  # by entity and split
        for split, census in enumerate(others):
            for kind, count in census.without(taken):
                self.totals[self._group(*kind.entities), 2 * split] += count
                for entity in kind.entities:
                    self.rows_of[entity].add((split, kind, count))
                    self._kinds[entity, split] += 1
        for entity, split in self._kinds:
            self.totals[self._group(entity), 2 * split + 1] += 1

    def loss(self, entity: str) -> np.ndarray:
        """What the totals lose if the entity stays in the KB."""
        loss = np.zeros_like(self.totals)
        for split, kind, count in self.rows_of[entity]:
            loss[self._group(*kind.entities), 2 * split] += count
        for (other, split), kinds in self._kinds_lost(entity).items():
            if kinds == self._kinds[other, split]:
                loss[self._group(other), 2 * split + 1] += 1
        return loss

    def keep(self, entity: str) -> None:
        """Put the entity back into the KB."""
        self.totals -= self.loss(entity)
        self._kinds.subtract(self._kinds_lost(entity))
        for row in list(self.rows_of[entity]):
            for other in row[1].entities:
                self.rows_of[other].discard(row)

    def _kinds_lost(self, entity: str) -> Counter[tuple[str, int]]:
        """For each entity and split, the number of kinds that are not NIL if this entity stays."""
        rows = self.rows_of[entity]
        return Counter((other, split) for split, kind, _ in rows for other in kind.entities)

    def _group(self, *entities: str) -> int:
        return UNSEEN if self._in_train.isdisjoint(entities) else SEEN


def _whole_shares(train: Census, others: Sequence[Census]) -> list[float]:
    whole = [split_statistics(split, train) for split in others]
    return [share or 0.0 for of in whole for share in (of.mentions_seen, of.entities_seen)]


def _beyond(totals: np.ndarray, wanted: np.ndarray, present: np.ndarray, tolerance: float) -> float:
    """The sum of the differences between the shares and the wanted ones, beyond the tolerance."""
    shares = totals[SEEN] / np.maximum(totals.sum(axis=0), 1)
    differences = np.abs(shares - wanted)[present]
    return float(np.maximum(differences - tolerance, 0).sum())
