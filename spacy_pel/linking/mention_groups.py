"""Mentions that get one answer together, such as all mentions in a document with the same words."""

from __future__ import annotations

import numpy as np


def group_means(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Replace each row by the mean of the rows of its group.

    Args:
        rows: Float [n, ...].
        groups: int [n], the group of each row.

    Returns:
        An array of the shape and dtype of the rows. Sums are taken in float64.
    """
    _, members, counts = np.unique(groups, return_inverse=True, return_counts=True)
    together = rows[np.argsort(members, kind="stable")]
    sums = np.add.reduceat(together, counts.cumsum() - counts, dtype=np.float64)
    return (sums / counts[:, None]).astype(rows.dtype)[members]
