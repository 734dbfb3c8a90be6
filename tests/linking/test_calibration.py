from __future__ import annotations

import math

import numpy as np

from spacy_pel.linking.calibration import Calibration


def test_extreme_scores_do_not_overflow():
    with np.errstate(all="raise"):
        found = Calibration(100.0, 0.0).probabilities(np.array([-1e6, 0, 1e6, -math.inf]))
    assert found.tolist() == [0.0, 0.5, 1.0, 0.0]
