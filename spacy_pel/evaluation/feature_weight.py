"""What a feature of candidates is worth beside their score: fitted, never a rule.

A feature is, for example, whether the mention is one of the candidate's names, or what the
cross-encoder says of the two. A mention's candidates are chosen between by the sum of their score
and the feature times a weight. The weight is that of a conditional logistic regression (McFadden
1974): the probability of candidate c is a softmax of  a * score + b * feature,  and what maximises
the likelihood of the right candidates has the same order as  score + b / a * feature.  Two numbers,
found by Newton's method.
"""

from __future__ import annotations

import numpy as np

from .newton import concave_maximum

# So little that it is felt only where the mentions cannot tell: a feature that is always right
# would have an infinite weight.
_RIDGE = 1e-3


def feature_weight(scores: np.ndarray, feature: np.ndarray, right: np.ndarray) -> float | None:
    """What a unit of the feature is worth, in units of the scores.

    scores: float [n, k], of the candidates of n mentions; -inf where there is none.
    feature: bool or float [n, k]; whatever it is where there is no candidate.
    right: bool [n, k], whether the candidate is right; of several, each counts alike.

    None where the mentions cannot say: none has its right candidate among others, or a higher score
    or the feature does not speak for a candidate; of few mentions that is chance.
    """
    there = np.isfinite(scores)
    telling = (right & there).any(axis=1) & (~right & there).any(axis=1)
    if not telling.any():
        return None
    scores, feature, right, there = (x[telling] for x in (scores, feature, right & there, there))
    features = np.stack([_behind(x, there) for x in (scores, feature)], axis=-1)
    units = features[there].std(axis=0)
    units[units == 0] = 1.0
    features /= units
    targets = right / right.sum(axis=1, keepdims=True)
    slope, weight = concave_maximum(
        lambda coefficients: _likelihood(coefficients, features, there, targets), np.zeros(2)
    )
    return float(weight / slope * units[0] / units[1]) if slope > 0 and weight > 0 else None


def _behind(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """How far each is from its mention's largest, float64 [n, k]; 0 where there is no candidate."""
    largest = np.where(there, values, -np.inf).max(axis=1, keepdims=True)
    return np.where(there, values - largest, 0.0).astype(np.float64)


def _likelihood(
    coefficients: np.ndarray, features: np.ndarray, there: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean log-likelihood less the ridge, its gradient [2] and its negative second derivative.

    Of the softmax of features float64 [n, k, 2] times coefficients [2], for targets [n, k].
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
    return value, gradient, second / n + _RIDGE * np.eye(2)
