"""Confidence intervals against printed tables of Student's t, and by their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from papers.confidence_interval import confidence_interval
from papers.spread import Spread, spread

# Two-sided quantiles of 95 % by degrees of freedom, from printed tables.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 9: 2.262, 10: 2.228}
TABLE |= {20: 2.086, 29: 2.045, 30: 2.042, 120: 1.980}


@pytest.mark.parametrize(("freedom", "t"), TABLE.items())
def test_the_quantiles_are_those_of_printed_tables(freedom: int, t: float) -> None:
    runs = freedom + 1
    low, high = confidence_interval(Spread(10.0, math.sqrt(runs), runs))
    assert (10 - low, high - 10) == (pytest.approx(t, abs=6e-4), pytest.approx(t, abs=6e-4))


def test_another_level() -> None:
    low, high = confidence_interval(Spread(0.0, math.sqrt(3), 3), level=0.99)
    assert (low, high) == (pytest.approx(-9.925, abs=6e-4), pytest.approx(9.925, abs=6e-4))


def test_19_of_20_intervals_hold_the_mean() -> None:
    runs = np.random.default_rng(0).normal(7.0, 3.0, size=(4000, 3))
    intervals = [confidence_interval(spread(row.tolist())) for row in runs]
    assert np.mean([low < 7 < high for low, high in intervals]) == pytest.approx(0.95, abs=0.011)


def test_a_single_run_has_none() -> None:
    assert confidence_interval(Spread(1.0, None, 1)) is None
