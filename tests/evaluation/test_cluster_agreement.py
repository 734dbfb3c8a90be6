"""The adjusted Rand index, against counting all pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from spacy_pel.evaluation.cluster_agreement import adjusted_rand_index


def by_pairs(first: list[int], second: list[int]) -> float:
    """The index by its definition over all pairs of things."""
    pairs = list(combinations(range(len(first)), 2))
    a = [first[i] == first[j] for i, j in pairs]
    b = [second[i] == second[j] for i, j in pairs]
    expected = sum(a) * sum(b) / len(pairs)
    together = sum(x and y for x, y in zip(a, b))
    return (together - expected) / ((sum(a) + sum(b)) / 2 - expected)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_pairs_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 4, size=(2, 12))
    assert adjusted_rand_index(first, second) == pytest.approx(by_pairs(first, second))


def test_the_same_clusters_agree() -> None:
    assert adjusted_rand_index([0, 0, 1], [7, 7, 3]) == 1
    assert adjusted_rand_index([0, 1, 2], [2, 1, 0]) == 1
    assert adjusted_rand_index([5, 5], [9, 9]) == adjusted_rand_index([], []) == 1
