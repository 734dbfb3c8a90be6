"""From scores to probabilities: fitting them, and how far off they are.

Platt scaling (a sigmoid with a slope and an intercept) rather than temperature, which has no
intercept: a cosine of 0 does not mean even odds. Rather than isotonic regression, since a dev set
of a few hundred mentions gives that but a few steps, with ties and probabilities of 0 and 1; the
sigmoid keeps the order of the scores, and two numbers go into a JSON file. scikit-learn would add
45 MB to an install for the fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .newton import concave_maximum


def platt_fit(
    scores: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray
) -> tuple[float, float]:
    """Return slope and intercept of the sigmoid of the scores that fits best what was right.

    scores: [n], finite. right: [n]. The likelihood is maximised against Platt's softened targets
    (1999), (r + 1) / (r + 2) for the r that are right and 1 / (w + 2) for the w that are wrong, so
    that it has a maximum even where a score parts the two. Raises ValueError where one of the two
    is missing.
    """
    scores, right = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    if not (n_right and n_wrong):
        raise ValueError(f"{n_right} right and {n_wrong} wrong; a fit needs both")
    targets = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    mean, spread = scores.mean(), scores.std() or 1.0
    inputs = np.stack([(scores - mean) / spread, np.ones(len(scores))], axis=1)
    slope, intercept = concave_maximum(
        lambda weights: _likelihood(weights, inputs, targets), np.zeros(2)
    )
    return float(slope / spread), float(intercept - slope * mean / spread)


def _likelihood(
    weights: np.ndarray, inputs: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log-likelihood of a logistic regression, its gradient and its negative second derivative."""
    logits = inputs @ weights
    p = (1 + np.tanh(logits / 2)) / 2
    value = (targets * logits - np.logaddexp(0, logits)).sum()
    curvature = (inputs.T * (p * (1 - p))) @ inputs
    # The ridge is for scores that are all the same, whose slope is then 0.
    return value, inputs.T @ (targets - p), curvature + 1e-9 * np.eye(len(weights))
