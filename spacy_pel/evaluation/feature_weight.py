"""The weight of a feature of candidates that is added to their score.

A feature is, for example, whether the mention is one of the candidate's names, or the
cross-encoder's score. Candidates are ordered by  score + weight * feature.

The weight is fitted by a conditional logistic regression (McFadden 1974): the probability of a
mention's candidate is the softmax of  a * score + b * feature  over its candidates, and a and b
maximise the likelihood of the right candidates. The order is that of  score + b / a * feature,  so
the weight is b / a.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# A small ridge, which matters only where the mentions leave the weight open: a feature that is always
# right would have an infinite weight.
_RIDGE = 1e-3


def feature_weight(scores: np.ndarray, feature: np.ndarray, right: np.ndarray) -> float | None:
    """Fit the weight of a feature.

    Args:
        scores: Float [n, k], the scores of the candidates of n mentions; -inf for no candidate.
        feature: bool or float [n, k]; its value for no candidate does not matter.
        right: bool [n, k], whether the candidate is right. If several candidates of a mention are,
            they share its weight equally.

    Returns:
        What one unit of the feature adds to the score. None if the mentions do not tell: no mention
        has both a right and a wrong candidate, or a higher score or a larger feature does not make
        a candidate more probable, which happens by chance if there are few mentions.
    """
    weights = feature_weights(scores, [feature], right)
    return None if weights is None or weights[0] <= 0 else float(weights[0])


def feature_weights(
    scores: np.ndarray, features: Sequence[np.ndarray], right: np.ndarray
) -> np.ndarray | None:
    """Fit the weights of several features together; a weight may be below 0.

    Args:
        scores: As for ``feature_weight``.
        features: Each as for ``feature_weight``.
        right: As for ``feature_weight``.

    Returns:
        What one unit of each feature adds to the score, float64 [f]. None if no mention has both a
        right and a wrong candidate, or a higher score does not make a candidate more probable.
    """
    from scipy.optimize import minimize  # here: it takes a while
    from scipy.special import log_softmax

    there = np.isfinite(scores)
    telling = (right & there).any(axis=1) & (~right & there).any(axis=1)
    if not telling.any():
        return None
    right, there = (right & there)[telling], there[telling]
    values = np.stack([_behind(x[telling], there) for x in (scores, *features)], axis=-1)
    units = values[there].std(axis=0)
    units[units == 0] = 1.0
    values /= units
    targets = right / right.sum(axis=1, keepdims=True)

    def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative mean log-likelihood with the ridge, and its gradient [f]."""
        logits = np.where(there, values @ coefficients, -np.inf)
        log_p = log_softmax(logits, axis=1)
        missed = targets - np.exp(log_p)
        value = -(targets * np.where(there, log_p, 0.0)).sum() / len(values)
        gradient = -np.einsum("nk,nkf->f", missed, values) / len(values)
        return value + _RIDGE / 2 * coefficients @ coefficients, gradient + _RIDGE * coefficients

    found = minimize(loss, np.zeros(values.shape[-1]), jac=True, method="BFGS", tol=1e-9)
    slope, *weights = found.x
    return np.array(weights) / slope * units[0] / units[1:] if slope > 0 else None


def _behind(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Each value less its mention's largest, float64 [n, k]; 0 for no candidate."""
    largest = np.where(there, values, -np.inf).max(axis=1, keepdims=True)
    return np.where(there, values - largest, 0.0).astype(np.float64)
