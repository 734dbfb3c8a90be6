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

from .newton import concave_maximum

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
    slope, *weights = concave_maximum(
        lambda coefficients: _likelihood(coefficients, values, there, targets),
        np.zeros(values.shape[-1]),
    )
    return np.array(weights) / slope * units[0] / units[1:] if slope > 0 else None


def _behind(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Each value less its mention's largest, float64 [n, k]; 0 for no candidate."""
    largest = np.where(there, values, -np.inf).max(axis=1, keepdims=True)
    return np.where(there, values - largest, 0.0).astype(np.float64)


def _likelihood(
    coefficients: np.ndarray, features: np.ndarray, there: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The mean log-likelihood less the ridge, its gradient [f] and negative second derivative [f, f].

    The probabilities are the softmax of features [n, k, f] times coefficients [f]; targets [n, k].
    """
    logits = np.where(there, features @ coefficients, -np.inf)
    logits -= logits.max(axis=1, keepdims=True)
    odds = np.exp(logits)
    totals = odds.sum(axis=1, keepdims=True)
    p = odds / totals
    log_p = np.where(there, logits, 0.0) - np.log(totals)
    mean = np.einsum("nk,nkf->nf", p, features)
    n = len(features)
    value = (targets * log_p).sum() / n - _RIDGE / 2 * coefficients @ coefficients
    gradient = np.einsum("nk,nkf->f", targets - p, features) / n - _RIDGE * coefficients
    second = np.einsum("nk,nkf,nkg->fg", p, features, features) - mean.T @ mean
    return value, gradient, second / n + _RIDGE * np.eye(len(coefficients))
