"""Newton's method against numbers that are known."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.evaluation.newton import concave_maximum


def test_a_parabola_takes_one_step() -> None:
    top, curvature = np.array([3.0, -2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    calls = []

    def parabola(x: np.ndarray):
        calls.append(x)
        away = x - top
        return -0.5 * away @ curvature @ away, -curvature @ away, curvature

    np.testing.assert_allclose(concave_maximum(parabola, np.zeros(2)), top)
    assert len(calls) == 2


@pytest.mark.parametrize("start", [0.5, 20.0, -20.0])
def test_a_step_that_goes_too_far_is_halved(start: float) -> None:
    """-log cosh: far from its top its second derivative is nearly 0, and a whole step is huge."""

    def function(x: np.ndarray):
        slope = np.tanh(x - 1)
        curvature = np.diag(np.maximum(1 - slope**2, 1e-6))
        return float(-np.logaddexp(x - 1, 1 - x).sum()), -slope, curvature

    found = concave_maximum(function, np.array([start]))
    np.testing.assert_allclose(found, [1.0], atol=1e-6)
