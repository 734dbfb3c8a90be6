from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.models.losses import Targets
from spacy_pel.training.gold_edges import Arborescence, MentionEdges
from spacy_pel.training.gold_tree import ENTITY
from spacy_pel.training.mention_index import MentionIndex
from spacy_pel.training.negatives import Row

from .test_gold_tree import after_deletions

ROWS = {0: np.array([[1.0, 0.0, 0.1]]), 1: np.array([[0.0, 1.0, 0.0], [0.3, 0.3, 0.3]])}
# Of which clusters: mention 2 may mean both entities; entity 7 has one mention.
CLUSTERS = {0: [0, 2, 4, 6], 1: [1, 2, 3], 7: [5]}
GOLDS = [(0,), (1,), (0, 1), (1,), (0,), (7,), (0,)]
VECTORS = np.random.default_rng(1).normal(size=(7, 3))


class FixedIndex:
    """Seven mentions with fixed vectors; none is near to another one."""

    mentions = [SimpleNamespace(golds=golds) for golds in GOLDS]
    nearest_of = MentionIndex.nearest_of

    def as_it_is(self) -> np.ndarray:
        return VECTORS

    def cluster(self, entity: int) -> np.ndarray:
        return np.array(CLUSTERS[entity])

    def nearest_others(self, numbers, n: int) -> list[list[int]]:
        wrong = [[k for k in range(7) if not set(GOLDS[k]) & set(GOLDS[i])] for i in numbers]
        return [own[:n] for own in wrong]


class FixedPool:
    def __init__(self) -> None:
        self.mentions = FixedIndex()
        self.ages: list[int] = []

    def rows_of(self, entity: int) -> np.ndarray:
        return ROWS.get(entity, np.ones((1, 3)))

    def refresh_every(self, steps: int) -> None:
        self.ages.append(steps)


def sources(chooser: Arborescence, numbers: list[int], seed: int = 0) -> list[int]:
    """The number of each mention's positive, or ENTITY."""
    edges = chooser(numbers, FixedPool(), np.random.default_rng(seed))
    read = [*numbers, *edges.others]
    assert len(set(read)) == len(set(numbers)) + len(edges.others)
    return [ENTITY if place == ENTITY else read[place] for place in edges.positive]


def expected(number: int, members: list[int]) -> int:
    """By the paper's deletions."""
    entity = GOLDS[number][0]
    found = after_deletions(VECTORS[members], FixedPool().rows_of(entity))[members.index(number)]
    return ENTITY if found == ENTITY else members[found]


def test_positives_among_all_mentions_of_the_cluster() -> None:
    found = sources(Arborescence(), [*range(7), 0])
    assert found == [expected(n, CLUSTERS[GOLDS[n][0]]) for n in [*range(7), 0]]
    assert found[5] == ENTITY and len(set(found)) > 2  # mentions as well as the entity


def test_positives_among_the_nearest_mention() -> None:
    for number, found in enumerate(sources(Arborescence("nearest"), list(range(7)))):
        others = [k for k in CLUSTERS[GOLDS[number][0]] if k != number]
        others.sort(key=lambda k: -VECTORS[k] @ VECTORS[number])
        assert found == expected(number, sorted([number, *others[:1]]))


def test_positives_among_a_random_mention() -> None:
    found = {tuple(sources(Arborescence("random"), list(range(7)), seed)) for seed in range(40)}
    assert sources(Arborescence("random"), [0, 4]) == sources(Arborescence("random"), [0, 4])
    for number in range(7):
        others = [k for k in CLUSTERS[GOLDS[number][0]] if k != number]
        possible = {expected(number, sorted([number, other])) for other in others} or {ENTITY}
        assert {one[number] for one in found} == possible


def test_negatives_are_the_nearest_mentions_of_others() -> None:
    pool = FixedPool()
    edges = Arborescence(negatives=2, refresh=9)([1, 5, 0], pool, np.random.default_rng(0))
    read = np.array([1, 5, 0, *edges.others])
    assert [set(read[row]) for row in edges.negatives] == [{0, 4}, {0, 1}, {1, 3}]
    assert pool.ages == [9]


def test_mentions_stand_behind_the_entities_that_are_needed() -> None:
    rows = [Row(entity, 0) for entity in range(4)]
    negatives = np.array([[False, False, False, True], [False, False, False, False]])
    nearby = np.array([[False, True, False], [False, False, True]])
    edges = MentionEdges([9], np.array([2, ENTITY]), nearby)
    # The positive entity of the first mention, 0, and entity 1 are nobody's any more.
    kept, targets = edges.beside(rows, Targets(np.array([0, 2]), negatives))
    assert kept == [Row(2, 0), Row(3, 0)]
    assert targets.positive.tolist() == [2 + 2, 0]
    assert targets.negatives.astype(int).tolist() == [[0, 1, 0, 1, 0], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"among": "some"}, 'an arborescence among "some"; choose one of all, nearest, random'),
        ({"negatives": -1}, "negatives of an arborescence is -1; it must be 0 or more"),
        ({"refresh": 0}, "refresh of an arborescence is 0; it must be 1 or more"),
    ],
)
def test_wrong_settings(settings: dict, message: str) -> None:
    with pytest.raises(PelError, match=message):
        Arborescence(**settings)
