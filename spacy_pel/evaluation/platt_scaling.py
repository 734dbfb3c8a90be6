"""Platt scaling: a sigmoid turns scores into probabilities.

The sigmoid has an intercept, and a slope for each score. Temperature scaling has no intercept, and a cosine of 0
does not mean even odds. Isotonic regression on a dev set of a few hundred mentions has only a few
steps, with ties and probabilities of 0 and 1. A sigmoid has none of these, and its few numbers fit
into a JSON file. scikit-learn would add 45 MB to an install for the fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .newton import concave_maximum


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
    scores, right = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    if not (n_right and n_wrong):
        raise ValueError(f"{n_right} right and {n_wrong} wrong; a fit needs both")
    targets = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    columns = scores.reshape(len(scores), -1)
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    spread[spread == 0] = 1.0
    inputs = np.column_stack([(columns - mean) / spread, np.ones(len(scores))])
    *slopes, intercept = concave_maximum(
        lambda weights: _likelihood(weights, inputs, targets), np.zeros(inputs.shape[1])
    )
    slopes = slopes / spread
    return *slopes.tolist(), float(intercept - slopes @ mean)


def _likelihood(
    weights: np.ndarray, inputs: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The log-likelihood of a logistic regression, its gradient and negative second derivative."""
    logits = inputs @ weights
    p = (1 + np.tanh(logits / 2)) / 2
    value = (targets * logits - np.logaddexp(0, logits)).sum()
    curvature = (inputs.T * (p * (1 - p))) @ inputs
    # The ridge makes the slope 0 where all scores are the same.
    return value, inputs.T @ (targets - p), curvature + 1e-9 * np.eye(len(weights))
