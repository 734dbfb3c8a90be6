from __future__ import annotations

import math

import numpy as np
import pytest

from spacy_pel.linking.calibration import Calibration, margins


def test_extreme_scores_do_not_overflow():
    with np.errstate(all="raise"):
        found = Calibration(100.0, 0.0).probabilities(np.array([-1e6, 0, 1e6, -math.inf]))
    assert found.tolist() == [0.0, 0.5, 1.0, 0.0]


def test_a_small_margin_lowers_the_probability():
    calibration = Calibration(2.0, -1.0, margin_slope=3.0)
    found = calibration.probabilities(np.array([0.5, 0.5]), np.array([0.0, 0.4]))
    assert found.tolist() == pytest.approx([0.5, 1 / (1 + math.exp(-1.2))])


def test_a_margin_is_to_the_best_of_the_others():
    none = -math.inf
    table = np.array([[5, 3, 4], [1, 2, 0], [7, none, none], [none, none, none]])
    assert margins(table).tolist() == [1, -1, 0, 0]
    assert margins(table[:, :1]).tolist() == [0, 0, 0, 0]
    assert margins(np.empty((0, 3))).tolist() == []
