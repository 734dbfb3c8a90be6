"""Which entities of the types are taken out, so that as many are seen in training as elsewhere."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from .census import Census, Kind, figures

SEEN, UNSEEN = 0, 1
ORDERS = 20  # the most that are tried


def kept_in_line(
    train: Census,
    others: Sequence[Census],
    of_types: Collection[str],
    *,
    tolerance: float,
    seed: int,
) -> set[str]:
    """The entities of the types that stay in the KB after all.

    With all of them taken out, the shares of their mentions, and of their distinct entities, that
    are seen in train may differ from those of the whole split. While one differs by more than the
    tolerance (a share, from 0 to 1), entities stay, in random order, each if it brings them closer;
    none where all is in line, and never all of a split. If an order ends before all is in line, a
    few more are tried, and the one that comes closest is taken.
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
    """By how much the shares still differ, and the entities that stay, tried in this order."""
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
    """The mentions that become NIL, while entities go back to the KB one by one.

    totals: int [2, 2 x splits], seen in train and unseen; a column of mentions for each split, and
    one of distinct entities.
    rows_of: by entity, the kinds of mentions that name it, with their split and number.
    """

    def __init__(self, train: Census, others: Sequence[Census], taken: Collection[str]) -> None:
        self.trained = train.entities
        self.totals = np.zeros((2, 2 * len(others)), dtype=np.int64)
        self.rows_of: defaultdict[str, set[tuple[int, Kind, int]]] = defaultdict(set)
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
        """By how much the totals shrink if the entity stays in the KB."""
        loss = np.zeros_like(self.totals)
        for split, kind, count in self.rows_of[entity]:
            loss[self._group(*kind.entities), 2 * split] += count
        for (other, split), kinds in self._gone(entity).items():
            if kinds == self._kinds[other, split]:
                loss[self._group(other), 2 * split + 1] += 1
        return loss

    def keep(self, entity: str) -> None:
        self.totals -= self.loss(entity)
        self._kinds.subtract(self._gone(entity))
        for row in list(self.rows_of[entity]):
            for other in row[1].entities:
                self.rows_of[other].discard(row)

    def _gone(self, entity: str) -> Counter[tuple[str, int]]:
        """How many kinds of each entity are no longer NIL if this one stays, by split."""
        rows = self.rows_of[entity]
        return Counter((other, split) for split, kind, _ in rows for other in kind.entities)

    def _group(self, *entities: str) -> int:
        return UNSEEN if self.trained.isdisjoint(entities) else SEEN


def _whole_shares(train: Census, others: Sequence[Census]) -> list[float]:
    whole = [figures(split, train) for split in others]
    return [share or 0.0 for of in whole for share in (of.mentions_seen, of.entities_seen)]


def _beyond(totals: np.ndarray, wanted: np.ndarray, present: np.ndarray, tolerance: float) -> float:
    """By how much, in all, the shares seen differ from the wanted ones beyond the tolerance."""
    shares = totals[SEEN] / np.maximum(totals.sum(axis=0), 1)
    differences = np.abs(shares - wanted)[present]
    return float(np.maximum(differences - tolerance, 0).sum())
