"""How much it says for a candidate that the mention is one of its names: fitted, never a rule.

A mention's candidates are chosen between by the sum of their score and, for those that have the
mention as a name, a weight. The weight is that of a conditional logistic regression (McFadden
1974): the probability of candidate c is a softmax of  a * score + b * match,  and what maximises
the likelihood of the right candidates has the same order as  score + b / a * match.  Two numbers,
and Newton's steps for them: a few lines of numpy.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

_STEPS, _ENOUGH = 50, 1e-9
# So little that it is felt only where the mentions cannot tell: a match that is always right would
# have an infinite weight.
_RIDGE = 1e-3


def name_weight(scores: np.ndarray, matches: np.ndarray, right: np.ndarray) -> Optional[float]:
    """What a match is worth, in units of the scores.

    scores: float [n, k], of the candidates of n mentions; -inf where there is none.
    matches: bool [n, k], whether the mention is a name of the candidate.
    right: bool [n, k], whether the candidate is right; of several, each counts alike.

    None where the mentions cannot say: none has its right candidate among others, or a higher score
    or a match does not speak for a candidate; of few mentions that is chance.
    """
    there = np.isfinite(scores)
    telling = (right & there).any(axis=1) & (~right & there).any(axis=1)
    if not telling.any():
        return None
    scores, matches, right, there = (x[telling] for x in (scores, matches, right & there, there))
    spread = scores[there].std() or 1.0
    centred = np.where(there, scores - scores.max(axis=1, keepdims=True), 0.0) / spread
    features = np.stack([centred, matches & there], axis=-1).astype(np.float64)
    slope, weight = _maximum(features, there, right / right.sum(axis=1, keepdims=True))
    return float(weight / slope * spread) if slope > 0 and weight > 0 else None


def _maximum(features: np.ndarray, there: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The coefficients [2] of the softmax that gives the targets [n, k] the highest likelihood.

    features: float64 [n, k, 2]. The likelihood is concave; steps are halved until it grows.
    """
    coefficients = np.zeros(2)
    value, gradient, curvature = _likelihood(coefficients, features, there, targets)
    for _ in range(_STEPS):
        step = np.linalg.solve(curvature, gradient)
        while True:
            tried = _likelihood(coefficients + step, features, there, targets)
            if tried[0] >= value or np.abs(step).max() < _ENOUGH:
                break
            step = step / 2
        coefficients = coefficients + step
        value, gradient, curvature = tried
        if np.abs(step).max() < _ENOUGH:
            break
    return coefficients


def _likelihood(
    coefficients: np.ndarray, features: np.ndarray, there: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean log-likelihood less the ridge, its gradient [2] and its negative second derivative."""
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
