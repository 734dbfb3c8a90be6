"""How far probabilities are from frequencies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Equal parts of 0 to 1 in which probabilities are compared with frequencies (Guo et al. 2017).
BINS = 15


def expected_calibration_error(
    probabilities: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray
) -> float | None:
    """Return how far probabilities are from frequencies: 0 to 1; None without any.

    probabilities: [n], from 0 to 1, sorted into 15 equal bins. right: [n]. The difference between
    the mean probability and the share that is right is taken in each bin, and averaged over the
    mentions.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if not len(probabilities):
        return None
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    differences = np.bincount(bins, weights=probabilities - np.asarray(right, dtype=np.float64))
    return float(np.abs(differences).sum() / len(probabilities))
