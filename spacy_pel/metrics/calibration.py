"""What is fitted to scores: probabilities, and the weights of features of candidates.

Platt scaling: a sigmoid turns scores into probabilities, with a slope and an intercept. Temperature
scaling has no intercept, and a cosine of 0 does not mean even odds. Isotonic regression on a few
hundred mentions has a few steps, with ties and probabilities of 0 and 1.

A feature is, for example, how near a learnt mention of the candidate is. Candidates are ordered by
score + weight * feature.  The weight is fitted by a conditional logistic regression (McFadden 1974):
the probability of a mention's candidate is the softmax of  a * score + b * feature  over its
candidates, and a and b maximise the likelihood of the right ones. The weight is b / a.
"""

from collections.abc import Sequence

import numpy as np

BINS = 15
# A small ridge, which matters only where the mentions leave the weight open: a feature that is always
# right would have an infinite weight.
_RIDGE = 1e-3


def platt_fit(
    scores: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray
) -> tuple[float, float]:
    """The slope and the intercept of the sigmoid of scores that best predicts what is right.

    The likelihood is maximised against Platt's softened targets (1999): (r + 1) / (r + 2) for the r
    that are right, and 1 / (w + 2) for the w that are wrong. So it has a maximum even where the
    scores, float [n], separate the two. ValueError if all are right, or all wrong.
    """
    from sklearn.linear_model import LogisticRegression  # here: it takes a second

    scores, right = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    if not (n_right and n_wrong):
        raise ValueError(f"{n_right} right and {n_wrong} wrong; a fit needs both")
    targets = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    mean, spread = scores.mean(), scores.std() or 1.0
    inputs = ((scores - mean) / spread)[:, None]
    # A soft target is both outcomes, each with its share. The faint ridge makes the slope 0 where
    # all scores are the same.
    model = LogisticRegression(C=1e9, solver="newton-cholesky", tol=1e-7)
    model.fit(
        np.concatenate([inputs, inputs]),
        np.repeat([True, False], len(inputs)),
        sample_weight=np.concatenate([targets, 1 - targets]),
    )
    slope = model.coef_[0, 0] / spread
    return float(slope), float(model.intercept_[0] - slope * mean)


def expected_calibration_error(
    probabilities: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray
) -> float | None:
    """How far probabilities, float [n], are from frequencies (Guo et al. 2017); None without any.

    The probabilities are sorted into 15 equal bins. In each bin the mean probability is compared
    with the share that is right, by bool [n]. The error, from 0 to 1, is the mean of these
    differences, each bin weighted by its number of probabilities.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if not len(probabilities):
        return None
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    differences = np.bincount(bins, weights=probabilities - np.asarray(right, dtype=np.float64))
    return float(np.abs(differences).sum() / len(probabilities))


def feature_weights(
    scores: np.ndarray, features: Sequence[np.ndarray], right: np.ndarray
) -> np.ndarray | None:
    """Fit the weights of several features together; a weight may be below 0.

    Args:
        scores: Float [n, k], the scores of the candidates of n mentions; -inf for no candidate.
        features: Each float [n, k]; its value for no candidate does not matter.
        right: bool [n, k], whether the candidate is right. If several candidates of a mention are,
            they share its weight equally.

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
