"""Reranking against a sort in plain Python; the search is tested elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.linking.calibration import Calibration
from spacy_pel.linking.link import link
from spacy_pel.linking.reranking import Reranking


class NoEncoder:
    def mention_vectors(self, mentions) -> np.ndarray:
        return np.zeros((len(mentions), 1), dtype=np.float32)


class ByTable:
    """A reranker that looks scores up, by mention and number; it is given mentions 0, 1, 2, ..."""

    def __init__(self, table) -> None:
        self.table = np.array(table, dtype=np.float32)

    def scores(self, mentions, numbers, found, kb, weight) -> np.ndarray:
        found = np.take_along_axis(self.table[mentions], np.maximum(numbers, 0), axis=1)
        return np.where(numbers < 0, np.float32(-np.inf), found)


class Labels:
    """A KB whose ids are in the opposite order of the numbers."""

    def labels(self, numbers) -> list[tuple[str, str]]:
        return [(f"C{99 - number:02}", "name") for number in numbers]


class FixedCandidates:
    def __init__(self, numbers, scores) -> None:
        self.numbers, self.scores = numbers, scores

    def search(self, vectors: np.ndarray, k: int) -> Candidates:
        return Candidates(self.numbers[:, :k], self.scores[:, :k])


WIDTH = 6


@st.composite
def problems(draw):
    """Candidates of some mentions, best first, and what a reranker says; with ties in both."""
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        numbers = draw(st.permutations(range(WIDTH)))[: draw(st.integers(0, WIDTH))]
        cosines = sorted((draw(st.sampled_from([0.1, 0.5, 0.9])) for _ in numbers), reverse=True)
        again = [draw(st.sampled_from([-90.0, -1.0, 0.0, 2.5, 80.0])) for _ in range(WIDTH)]
        rows.append((list(numbers), cosines, again))
    return rows, draw(st.integers(1, WIDTH)), draw(st.integers(1, WIDTH))


def naive_reranking(numbers, cosines, again, top: int):
    """[(number, cosine, log-probability or None)] by sorting."""
    first = [(number, cosine, again[number]) for number, cosine in zip(numbers, cosines)][:top]
    first.sort(key=lambda candidate: (-candidate[2], -candidate[0]))  # ids descend with numbers
    total = math.log(sum(math.exp(score) for *_, score in first)) if first else 0
    return [(n, c, s - total) for n, c, s in first] + [
        (n, c, None) for n, c in zip(numbers[top:], cosines[top:])
    ]


@settings(deadline=None)
@given(problems())
def test_the_order_of_reranking_is_that_of_a_naive_sort(problem):
    rows, k, top = problem
    depth = max(k, top)
    numbers = np.full((len(rows), depth), -1)
    cosines = np.full((len(rows), depth), -np.inf, dtype=np.float32)
    for i, (found, scores, _) in enumerate(rows):
        found, scores = found[:depth], scores[:depth]
        numbers[i, : len(found)], cosines[i, : len(found)] = found, scores
    reranking = Reranking(ByTable([again for *_, again in rows]), Labels(), top)
    index = FixedCandidates(numbers, cosines)
    mentions = np.arange(len(rows))
    links = link(NoEncoder(), index, mentions, k, reranking=reranking, nil_threshold=0.3)
    for i, (found, scores, again) in enumerate(rows):
        expected = naive_reranking(found[:depth], scores[:depth], again, top)[:k]
        assert links.numbers[i].tolist() == [n for n, *_ in expected] + [-1] * (k - len(expected))
        for j, (_, cosine, score) in enumerate(expected):
            assert links.scores[i, j] == np.float32(cosine)
            got = links.rerank_scores[i, j]
            assert np.isnan(got) if score is None else got == pytest.approx(score, abs=1e-4)
        assert np.isnan(links.rerank_scores[i, len(expected) :]).all()
        assert np.isneginf(links.scores[i, len(expected) :]).all()
        # The retriever decides on NIL, whatever comes first.
        assert links.nil[i] == (not scores or scores[0] < 0.3)


def test_probabilities_are_of_the_rerankers_scores():
    numbers, cosines = np.array([[3, 4], [5, -1], [-1, -1]]), [[0.9, 0.8], [0.7, -1], [-1, -1]]
    index = FixedCandidates(numbers, np.array(cosines, dtype=np.float32))
    table = [[0, 0, 0, 1, 3, 0]] * 3
    links = link(
        NoEncoder(),
        index,
        np.arange(3),
        2,
        calibration=Calibration(1.0, 0.0, reranked=2),
        reranking=Reranking(ByTable(table), Labels(), 2),
    )
    best = math.exp(3) / (math.exp(3) + math.exp(1))
    expected = [best / (1 + best), 0.5, 0.0]
    assert links.probabilities.tolist() == pytest.approx(expected, abs=1e-6)
    assert links.numbers[0].tolist() == [4, 3]
