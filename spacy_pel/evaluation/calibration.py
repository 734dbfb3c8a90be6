"""Probabilities from scores, and how far probabilities are from frequencies.

Platt scaling: a sigmoid turns scores into probabilities. It has an intercept, and a slope for each
score. Temperature scaling has no intercept, and a cosine of 0 does not mean even odds. Isotonic
regression on a dev set of a few hundred mentions has only a few steps, with ties and probabilities
of 0 and 1. A sigmoid has none of these, and its few numbers fit into a JSON file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The number of equal parts of 0 to 1 in which probabilities are compared with frequencies.
BINS = 15


def platt_fit(
    scores: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray
) -> tuple[float, ...]:
    """Fit the sigmoid of the scores that best predicts what is right.

    The likelihood is maximised against Platt's softened targets (1999): (r + 1) / (r + 2) for the r
    that are right, and 1 / (w + 2) for the w that are wrong. With them it has a maximum even where
    a score separates the two.

    Args:
        scores: Float [n], or [n, f] for several scores each, finite.
        right: bool [n], whether what has the score is right.

    Returns:
        The slope of each score, and the intercept.

    Raises:
        ValueError: All are right, or all are wrong.
    """
    from sklearn.linear_model import LogisticRegression  # here: it takes a second

    scores, right = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    if not (n_right and n_wrong):
        raise ValueError(f"{n_right} right and {n_wrong} wrong; a fit needs both")
    targets = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    columns = scores.reshape(len(scores), -1)
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    spread[spread == 0] = 1.0
    inputs = (columns - mean) / spread
    # A soft target is both outcomes, each with its share. The faint ridge makes the slope 0 where
    # all scores are the same.
    model = LogisticRegression(C=1e9, solver="newton-cholesky", tol=1e-7)
    model.fit(
        np.concatenate([inputs, inputs]),
        np.repeat([True, False], len(inputs)),
        sample_weight=np.concatenate([targets, 1 - targets]),
    )
    slopes = model.coef_[0] / spread
    return *slopes.tolist(), float(model.intercept_[0] - slopes @ mean)


def expected_calibration_error(
    probabilities: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray
) -> float | None:
    """Measure how far probabilities are from frequencies (Guo et al. 2017).

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
