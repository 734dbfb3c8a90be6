"""How well two clusterings agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def adjusted_rand_index(
    first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray
) -> float:
    """The adjusted Rand index (Hubert and Arabie 1985): agreement on pairs, less that by chance.

    Args:
        first: int [n], the cluster of each of n things.
        second: int [n], their clusters in the other clustering.

    Returns:
        1 for the same clusters, 0 on average for random ones of the same sizes. 1 if both have one
        cluster, or each thing alone.
    """
    _, a = np.unique(first, return_inverse=True)
    _, b = np.unique(second, return_inverse=True)
    together = _pairs(np.unique(a * (b.max(initial=0) + 1) + b, return_counts=True)[1])
    in_first, in_second = _pairs(np.bincount(a)), _pairs(np.bincount(b))
    by_chance = in_first * in_second / max(_pairs(np.array([len(a)])), 1)
    most = (in_first + in_second) / 2
    return 1.0 if most == by_chance else float((together - by_chance) / (most - by_chance))


def _pairs(counts: np.ndarray) -> float:
    """The number of pairs within groups of these sizes."""
    sizes = counts.astype(np.float64)
    return float((sizes * (sizes - 1) / 2).sum())
