import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.metrics.probabilities import expected_calibration_error, feature_weights, platt_fit

OUTCOMES = st.lists(
    st.tuples(st.floats(-1, 1, width=32), st.booleans()), min_size=2, max_size=30
).filter(lambda rows: {right for _, right in rows} == {True, False})


def loss(slope: float, intercept: float, rows) -> float:
    """The cross-entropy of the sigmoid against Platt's targets, by the formula."""
    n_right, total = sum(right for _, right in rows), 0.0
    high, low = (n_right + 1) / (n_right + 2), 1 / (len(rows) - n_right + 2)
    for score, right in rows:
        logit, target = slope * score + intercept, high if right else low
        total += target * np.logaddexp(0, -logit) + (1 - target) * np.logaddexp(0, logit)
    return total


@given(OUTCOMES)
def test_no_sigmoid_nearby_fits_better(rows) -> None:
    slope, intercept = platt_fit(*zip(*rows))
    best = loss(slope, intercept, rows)
    for factor, shift in ((0.5, 0), (0.99, 0), (1.01, 0), (2, 0), (1, -0.01), (1, 0.5)):
        assert best <= loss(slope * factor + shift, intercept, rows) + 1e-6
        assert best <= loss(slope, intercept * factor + shift, rows) + 1e-6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_scores_that_part_right_from_wrong_give_a_finite_sigmoid(scale: float) -> None:
    scores, right = scale * np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 0, 1, 1], dtype=bool)
    slope, intercept = platt_fit(scores, right)
    probabilities = 1 / (1 + np.exp(-slope * scores - intercept))
    assert 0.1 < probabilities[0] < probabilities[1] < 0.5 < probabilities[2] < 0.9


def test_scores_all_the_same_say_how_many_are_right() -> None:
    slope, intercept = platt_fit([0.5] * 4, [True, True, True, False])
    assert slope == pytest.approx(0, abs=1e-6)
    # The mean of the targets: (3 * 4/5 + 1/3) / 4.
    assert 1 / (1 + math.exp(-0.5 * slope - intercept)) == pytest.approx((2.4 + 1 / 3) / 4)
    with pytest.raises(ValueError, match="a fit needs both"):
        platt_fit([0.1, 0.2], [True, True])


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_the_error_equals_a_count_of_one_bin_after_the_other(rows) -> None:
    assert expected_calibration_error([], []) is None
    total = 0.0
    for n in range(15):
        upper = np.inf if n == 14 else n + 1
        members = [(p, right) for p, right in rows if n <= p * 15 < upper]
        total += abs(sum(p - right for p, right in members)) / len(rows)
    assert expected_calibration_error(*zip(*rows)) == pytest.approx(total, abs=1e-9)


def drawn(n: int, slope: float, weight: float, seed: int = 0, k: int = 8):
    """Mentions whose right candidate is drawn by the model itself."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.5, 0.1, (n, k))
    matches = rng.random((n, k)) < 0.2
    noise = rng.gumbel(size=(n, k))  # the largest of logits and such noise is a softmax's draw
    right = np.zeros((n, k), dtype=bool)
    right[np.arange(n), (slope * (scores + weight * matches) + noise).argmax(axis=1)] = True
    return scores, [matches], right


def test_no_other_weight_is_likelier() -> None:
    scores, [matches], right = case = drawn(60, 12, 0.1, k=4)

    def likelihood(slope: float, weight: float) -> float:
        logits = slope * (scores + weight * matches)
        return (logits[right] - np.log(np.exp(logits).sum(axis=1))).sum()

    grid = [(s, w) for s in np.linspace(2, 30, 57) for w in np.linspace(-0.3, 0.5, 81)]
    best = max(grid, key=lambda pair: likelihood(*pair))
    assert feature_weights(*case)[0] == pytest.approx(best[1], abs=0.02)


def test_mentions_that_cannot_say() -> None:
    scores, features, right = drawn(50, 20, 0.2)
    nothing = np.zeros_like(right)
    assert feature_weights(scores, features, nothing) is None  # no right candidate
    assert feature_weights(scores, features, ~nothing) is None  # and no wrong one
    assert feature_weights(-scores, [nothing], right) is None  # the lower, the better


cells = st.tuples(st.floats(-1, 1, width=32) | st.just(-np.inf), st.booleans(), st.booleans())
tables = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.lists(cells, min_size=k, max_size=k), min_size=1, max_size=6)
)


@given(tables)
def test_any_table_has_finite_weights_or_none(table) -> None:
    scores, matches, right = (np.array([[cell[i] for cell in row] for row in table])
                              for i in range(3))  # fmt: skip
    weights = feature_weights(scores.astype(np.float32), [matches.astype(bool)], right.astype(bool))
    assert weights is None or np.isfinite(weights).all()
