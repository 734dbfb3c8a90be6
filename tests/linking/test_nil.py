"""The NIL rule against a comparison of one mention after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.linking.nil import is_nil

SCORES = st.lists(st.floats(-2, 2, width=32) | st.sampled_from([-math.inf, math.inf]))


@given(SCORES, st.floats(-2, 2), st.sampled_from([list, np.float32, np.float64]))
def test_below_the_threshold_is_nil(scores, threshold, kind) -> None:
    given_as = scores if kind is list else np.array(scores, dtype=kind)
    decided = is_nil(given_as, threshold)
    assert decided.dtype == bool and decided.shape == (len(scores),)
    assert decided.tolist() == [score < threshold for score in scores]


def test_a_score_at_the_threshold_is_not_nil() -> None:
    assert is_nil([0.3, np.nextafter(0.3, 0)], 0.3).tolist() == [False, True]
    # The threshold is not rounded to the scores' precision.
    assert is_nil(np.array([0.1], dtype=np.float32), 0.1).tolist() == [False]
    assert is_nil(np.array([0.1], dtype=np.float32), float(np.float32(0.1))).tolist() == [False]
    assert is_nil(np.array([0.3], dtype=np.float32), 0.3000001).tolist() == [True]


@given(SCORES, st.floats(-2, 2), st.randoms(use_true_random=False))
def test_what_is_sure_is_not_nil(scores, threshold, random) -> None:
    sure = [random.random() < 0.5 for _ in scores]
    decided = is_nil(scores, threshold, np.array(sure, dtype=bool))
    assert decided.tolist() == [s < threshold and not own for s, own in zip(scores, sure)]


@given(SCORES)
def test_without_a_threshold_nothing_is_nil(scores) -> None:
    assert is_nil(scores, None).tolist() == [False] * len(scores)


@pytest.mark.parametrize("threshold", [-1e38, 0.0, 2.0])
def test_without_a_candidate_it_is_nil(threshold) -> None:
    assert is_nil([-math.inf, math.inf], threshold).tolist() == [True, False]
