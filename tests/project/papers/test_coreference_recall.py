"""The recall of coreferent mentions, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from papers.coreference_recall import coreference_recall


def naive(neighbours: list[list[int]], entities: list[int]) -> float:
    shares = []
    for i, near in enumerate(neighbours):
        others = [j for j, e in enumerate(entities) if j != i and e == entities[i] >= 0]
        if others:
            hits = [j for j in near if j in others]
            shares.append(len(hits) / min(len(others), len(near)))
    return sum(shares) / len(shares)


@pytest.mark.parametrize("seed", range(20))
def test_it_equals_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = 12, 4
    entities = rng.integers(-1, 4, n)
    entities[:2] = 1
    near = [rng.permutation(np.delete(np.arange(n), i))[:k].tolist() for i in range(n)]
    near[3][2:] = [-1, -1]
    found = coreference_recall(np.array(near), entities)
    assert found == pytest.approx(naive(near, entities.tolist()))


def test_without_coreferent_mentions_there_is_none() -> None:
    assert coreference_recall(np.array([[1], [2], [0]]), np.array([0, 1, -1])) is None
    assert coreference_recall(np.array([[1], [0]]), np.array([-1, -1])) is None
