"""Means and spreads against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papers.spread import spread, spread_text

VALUES = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=8)


@given(VALUES)
def test_a_spread_is_that_of_the_known_values(values):
    known = [value for value in values if value is not None]
    found = spread(values)
    if not known:
        assert found is None
        return
    assert found.runs == len(known)
    assert found.mean == pytest.approx(np.mean(known), abs=1e-6)
    if len(known) == 1:
        assert found.deviation is None
    else:
        assert found.deviation == pytest.approx(np.std(known, ddof=1), abs=1e-6)


def test_a_spread_as_text():
    assert spread_text(spread([0.721, 0.725, 0.717]), scale=100) == "72.1 ± 0.4"
    assert spread_text(spread([0.721]), scale=100) == "72.1"
    assert spread_text(spread([None])) == "-"
    assert spread_text(spread([12000, 14000]), decimals=0) == "13,000 ± 1,414"
