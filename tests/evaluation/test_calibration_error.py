"""The error against a count of one bin after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.evaluation.calibration_error import expected_calibration_error


def naive_error(rows) -> float:
    """Counted one bin after the other, the last with its upper end."""
    total = 0.0
    for n in range(15):
        upper = np.inf if n == 14 else n + 1
        members = [(p, right) for p, right in rows if n <= p * 15 < upper]
        if members:
            mean = sum(p for p, _ in members) / len(members)
            share = sum(right for _, right in members) / len(members)
            total += len(members) / len(rows) * abs(mean - share)
    return total


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_the_error_equals_a_naive_count(rows):
    assert expected_calibration_error(*zip(*rows)) == pytest.approx(naive_error(rows), abs=1e-9)


def test_the_error_by_hand():
    assert expected_calibration_error([0.7] * 10, [True] * 7 + [False] * 3) == pytest.approx(0)
    assert expected_calibration_error([1.0, 1.0, 0.0], [True, False, False]) == pytest.approx(1 / 3)
    assert expected_calibration_error([], []) is None
