"""The expected calibration error: how far probabilities are from frequencies (Guo et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The number of equal parts of 0 to 1 in which probabilities are compared with frequencies.
BINS = 15


def expected_calibration_error(
    probabilities: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray
) -> float | None:
    """Measure how far probabilities are from frequencies.

    The probabilities are sorted into 15 equal bins. In each bin the mean probability is compared
    with the share that is right. The error is the mean of these differences, each bin weighted by
    its number of probabilities.

    Args:
        probabilities: Float [n], from 0 to 1.
        right: bool [n], whether what has the probability is right.

    Returns:
        The error, from 0 to 1; None without probabilities.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if not len(probabilities):
        return None
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    differences = np.bincount(bins, weights=probabilities - np.asarray(right, dtype=np.float64))
    return float(np.abs(differences).sum() / len(probabilities))
