"""The decision between the best candidate and NIL, and its probability, by plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.linking.calibration import Calibration, margins
from spacy_pel.linking.link import link, without_candidates

SCORES = st.floats(-2, 2, width=32)


class NoEncoder:
    def mention_vectors(self, mentions) -> np.ndarray:
        return np.zeros((len(mentions), 1), dtype=np.float32)


class FixedScores:
    """An index whose candidates have these scores [n, k]."""

    def __init__(self, scores) -> None:
        self.scores = np.array(scores, dtype=np.float32)

    def search(self, vectors: np.ndarray, k: int) -> Candidates:
        numbers = np.where(np.isinf(self.scores), -1, np.arange(k))
        return Candidates(numbers, self.scores)


def decided(best, k=2, **settings):
    """What linking says of mentions with these best scores, and a second candidate below."""
    scores = [[score, score - 1] for score in best]
    return link(NoEncoder(), FixedScores(scores), [None] * len(scores), k, **settings)


@given(st.lists(SCORES, min_size=1), st.floats(-50, 50), st.floats(-50, 50))
def test_probabilities_are_sigmoids(best, slope, intercept):
    links = decided(best, calibration=Calibration(slope, intercept))
    expected = [1 / (1 + math.exp(-(slope * score + intercept))) for score in best]
    assert links.probabilities.tolist() == pytest.approx(expected, abs=1e-12)
    assert not links.nil.any()


@given(st.lists(SCORES, min_size=1), st.floats(-5, 5))
def test_probabilities_know_the_margin_even_of_one_candidate(best, margin_slope):
    for k in (1, 2):
        links = decided(best, k=k, calibration=Calibration(1.0, 0.0, margin_slope=margin_slope))
        expected = Calibration(1.0, 0.0, margin_slope=margin_slope).probabilities(
            np.array(best), margins(np.array([[b, b - 1] for b in best]))
        )
        assert links.probabilities.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_mentions_that_lose_their_candidates(threshold: float | None) -> None:
    links = decided([1.0, 1.0], nil_threshold=threshold)
    left = without_candidates(links, np.array([False, True]), threshold)
    assert left.numbers.tolist() == [[0, 1], [-1, -1]]
    assert left.scores.tolist() == [[1, 0], [-math.inf, -math.inf]]
    assert left.nil.tolist() == [False, threshold is not None]


def test_extreme_scores_do_not_overflow():
    with np.errstate(all="raise"):
        found = Calibration(100.0, 0.0).probabilities(np.array([-1e6, 0, 1e6, -math.inf]))
    assert found.tolist() == [0.0, 0.5, 1.0, 0.0]


def test_a_margin_is_to_the_best_of_the_others():
    none = -math.inf
    table = np.array([[5, 3, 4], [1, 2, 0], [7, none, none], [none, none, none]])
    assert margins(table).tolist() == [1, -1, 0, 0]
    assert margins(table[:, :1]).tolist() == [0, 0, 0, 0]
    assert margins(np.empty((0, 3))).tolist() == []
