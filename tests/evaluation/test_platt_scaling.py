"""Platt scaling against a fit by gradient descent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.evaluation.platt_scaling import platt_fit

OUTCOMES = st.lists(
    st.tuples(st.floats(-1, 1, width=32), st.booleans()), min_size=2, max_size=30
).filter(lambda rows: {right for _, right in rows} == {True, False})


def softened_loss(slope: float, intercept: float, rows) -> float:
    """Cross-entropy of the sigmoid against Platt's targets, by the formula."""
    n_right = sum(right for _, right in rows)
    high, low = (n_right + 1) / (n_right + 2), 1 / (len(rows) - n_right + 2)
    loss = 0.0
    for score, right in rows:
        target, logit = (high if right else low), slope * score + intercept
        # -t log p - (1 - t) log (1 - p), where log p = -log(1 + e^-x)
        loss += target * softplus(-logit) + (1 - target) * softplus(logit)
    return loss


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def descended(rows, steps: int = 20000, rate: float = 0.5) -> tuple[float, float]:
    """The same fit by gradient descent."""
    n_right = sum(right for _, right in rows)
    high, low = (n_right + 1) / (n_right + 2), 1 / (len(rows) - n_right + 2)
    slope = intercept = 0.0
    for _ in range(steps):
        errors = [
            (score, 1 / (1 + math.exp(-slope * score - intercept)) - (high if right else low))
            for score, right in rows
        ]
        slope -= rate * sum(score * error for score, error in errors) / len(rows)
        intercept -= rate * sum(error for _, error in errors) / len(rows)
    return slope, intercept


def test_the_fit_is_that_of_gradient_descent():
    rows = [(0.9, True), (0.8, True), (0.7, False), (0.5, True), (0.2, False), (-0.3, False)]
    assert platt_fit(*zip(*rows)) == pytest.approx(descended(rows), abs=1e-4)


@given(OUTCOMES)
def test_no_sigmoid_nearby_fits_better(rows):
    slope, intercept = platt_fit(*zip(*rows))
    best = softened_loss(slope, intercept, rows)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert best <= softened_loss(slope * factor, intercept, rows) + 1e-6
        assert best <= softened_loss(slope, intercept * factor, rows) + 1e-6
    for shift in (-0.5, -0.01, 0.01, 0.5):
        assert best <= softened_loss(slope + shift, intercept, rows) + 1e-6
        assert best <= softened_loss(slope, intercept + shift, rows) + 1e-6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_scores_that_part_right_from_wrong_give_a_finite_sigmoid(scale):
    scores, right = scale * np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 0, 1, 1], dtype=bool)
    slope, intercept = platt_fit(scores, right)
    probabilities = 1 / (1 + np.exp(-slope * scores - intercept))
    assert 0.1 < probabilities[0] < probabilities[1] < 0.5 < probabilities[2] < 0.9


def test_scores_all_the_same_say_how_many_are_right():
    slope, intercept = platt_fit([0.5] * 4, [True, True, True, False])
    assert slope == pytest.approx(0, abs=1e-6)
    # The mean of the targets: (3 * 4/5 + 1/3) / 4.
    assert 1 / (1 + math.exp(-0.5 * slope - intercept)) == pytest.approx((2.4 + 1 / 3) / 4)


@pytest.mark.parametrize("right", [[True, True], [False, False]])
def test_a_fit_needs_both(right):
    with pytest.raises(ValueError, match="a fit needs both"):
        platt_fit([0.1, 0.2], right)


def test_each_of_several_scores_has_a_slope():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 2))
    right = rng.random(4000) < 1 / (1 + np.exp(-(2 * scores[:, 0] - 3 * scores[:, 1] + 0.5)))
    assert platt_fit(scores, right) == pytest.approx((2, -3, 0.5), abs=0.25)
    first, same, intercept = platt_fit(np.column_stack([scores[:, 0], np.full(4000, 7.0)]), right)
    assert same == pytest.approx(0, abs=1e-6)
    assert platt_fit(scores[:, 0], right) == pytest.approx((first, intercept + 7 * same), abs=1e-6)
