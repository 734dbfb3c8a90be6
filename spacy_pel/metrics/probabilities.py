"""Fit probabilities (Platt scaling) and weights of features of candidates to scores.

Platt scaling maps scores to probabilities with a sigmoid, which has a slope and an intercept.
Temperature scaling has no intercept, but a cosine of 0 does not mean even odds. Isotonic regression
on a few hundred mentions has few steps, with ties and probabilities of 0 and 1.

A feature is, for example, the similarity of a candidate's nearest learnt mention. Candidates are
ordered by  score + weight * feature.  A conditional logistic regression (McFadden 1974) fits the
weight: the probability of a candidate is the softmax of  a * score + b * feature  over the candidates
of its mention, and a and b maximise the likelihood of the correct ones. The weight is b / a.
"""

from collections.abc import Sequence

import numpy as np

BINS = 15
# A small ridge. Without it, a feature that is always correct would have an infinite weight.
_RIDGE = 1e-3


def platt_fit(
    scores: Sequence[float] | np.ndarray, correct: Sequence[bool] | np.ndarray
) -> tuple[float, float]:
    """Fit the slope and the intercept of the sigmoid that turns scores into probabilities.

    The fit maximises the likelihood of Platt's softened targets (1999), (c + 1) / (c + 2) for c correct
    and 1 / (w + 2) for w wrong predictions. Therefore, a maximum exists even if the scores separate the
    two.

    Args:
        scores: Float [n], the scores of predictions.
        correct: bool [n], whether each is correct.

    Raises:
        ValueError: All predictions are correct, or all are wrong.
    """
    from sklearn.linear_model import LogisticRegression  # slow to import

    scores, correct = np.asarray(scores, dtype=np.float64), np.asarray(correct, dtype=bool)
    n_correct, n_wrong = int(correct.sum()), int((~correct).sum())
    if not (n_correct and n_wrong):
        raise ValueError(f"{n_correct} correct and {n_wrong} wrong; a fit needs both")
    targets = np.where(correct, (n_correct + 1) / (n_correct + 2), 1 / (n_wrong + 2))
    mean, spread = scores.mean(), scores.std() or 1.0
    inputs = ((scores - mean) / spread)[:, None]
    # A soft target is a weighted pair of both outcomes. The small ridge makes the slope 0 if all scores
    # are equal.
    model = LogisticRegression(C=1e9, solver="newton-cholesky", tol=1e-7)
    model.fit(
        np.concatenate([inputs, inputs]),
        np.repeat([True, False], len(inputs)),
        sample_weight=np.concatenate([targets, 1 - targets]),
    )
    slope = model.coef_[0, 0] / spread
    return float(slope), float(model.intercept_[0] - slope * mean)


def expected_calibration_error(
    probabilities: Sequence[float] | np.ndarray, correct: Sequence[bool] | np.ndarray
) -> float | None:
    """Return the expected calibration error (Guo et al. 2017), from 0 to 1, or None without predictions.

    It is the mean absolute difference between the mean probability and the accuracy in 15 bins of
    equal width, weighted by the number of predictions in each bin.

    Args:
        probabilities: Float [n], the probability that each prediction is correct.
        correct: bool [n], whether each prediction is correct.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if not len(probabilities):
        return None
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    differences = np.bincount(bins, weights=probabilities - np.asarray(correct, dtype=np.float64))
    return float(np.abs(differences).sum() / len(probabilities))


def feature_weights(
    scores: np.ndarray, features: Sequence[np.ndarray], correct: np.ndarray
) -> np.ndarray | None:
    """Fit the weights of several features jointly. A weight may be negative.

    Args:
        scores: Float [n, k], the scores of the candidates of n mentions; -inf where there is none.
        features: Each float [n, k], with any value where there is no candidate.
        correct: bool [n, k], whether the candidate is correct. Several correct candidates of a
            mention share its weight equally.

    Returns:
        The amount that one unit of each feature adds to the score, float64 [f]. None if no mention has
        both a correct and a wrong candidate, or a higher score does not make a candidate more probable.
    """
    from scipy.optimize import minimize  # slow to import
    from scipy.special import log_softmax

    mask = np.isfinite(scores)
    has_both = (correct & mask).any(axis=1) & (~correct & mask).any(axis=1)
    if not has_both.any():
        return None
    correct, mask = (correct & mask)[has_both], mask[has_both]
    values = np.stack([_below_largest(x[has_both], mask) for x in (scores, *features)], axis=-1)
    units = values[mask].std(axis=0)
    units[units == 0] = 1.0
    values /= units
    targets = correct / correct.sum(axis=1, keepdims=True)

    def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the negative mean log-likelihood with the ridge, and its gradient [f]."""
        logits = np.where(mask, values @ coefficients, -np.inf)
        log_p = log_softmax(logits, axis=1)
        value = -(targets * np.where(mask, log_p, 0.0)).sum() / len(values)
        gradient = -np.einsum("nk,nkf->f", targets - np.exp(log_p), values) / len(values)
        return value + _RIDGE / 2 * coefficients @ coefficients, gradient + _RIDGE * coefficients

    result = minimize(loss, np.zeros(values.shape[-1]), jac=True, method="BFGS", tol=1e-9)
    slope, *weights = result.x
    return np.array(weights) / slope * units[0] / units[1:] if slope > 0 else None


def _below_largest(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Subtract the largest value of each mention, float64 [n, k]; 0 where there is no candidate."""
    largest = np.where(mask, values, -np.inf).max(axis=1, keepdims=True)
    return np.where(mask, values - largest, 0.0).astype(np.float64)
