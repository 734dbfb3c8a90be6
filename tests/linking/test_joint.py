"""The nearest mentions, against all inner products; and their order by a cross-encoder."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.linking.joint import PairedMentions, mention_neighbours


def made_up_vectors(n: int) -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(n, 8)).astype(np.float32)
    vectors[n // 2 :] = vectors[: n - n // 2]  # each twice
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_they_are_the_best_of_all_without_the_mention_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spacy_pel.linking.joint._TOGETHER", 7)
    vectors = made_up_vectors(30)
    found = mention_neighbours(VectorMatrix(vectors), 4)
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    best = np.sort(scores, axis=1)[:, :-5:-1]
    np.testing.assert_allclose(found.scores, best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, found.numbers, 1), best, atol=1e-5)
    assert (found.numbers[:, 0] == (np.arange(30) + 15) % 30).all()


def test_many_are_found_by_an_inverted_file(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = made_up_vectors(400)
    exact = mention_neighbours(VectorMatrix(vectors), 4)
    monkeypatch.setattr("spacy_pel.linking.joint.COMPARED", 100)
    found = mention_neighbours(VectorMatrix(vectors), 4)
    assert np.isin(exact.numbers, found.numbers).mean() > 0.9
    assert (found.numbers != np.arange(400)[:, None]).all()
    again = mention_neighbours(VectorMatrix(vectors), 4)
    assert (found.numbers == again.numbers).all() and (found.scores == again.scores).all()


def test_there_may_be_fewer_than_wanted() -> None:
    found = mention_neighbours(VectorMatrix(made_up_vectors(3)), 4)
    assert (found.numbers >= 0).sum(axis=1).tolist() == [2, 2, 2]
    assert mention_neighbours(VectorMatrix(made_up_vectors(3)), 0).numbers.shape == (3, 0)


NUMBERS = np.array([[1, 2, 3], [3, 0, -1], [-1, -1, -1], [2, 1, 0]])
COSINES = np.where(NUMBERS < 0, -np.inf, 0.5).astype(np.float32)
SCORES = {(0, 1): 1.0, (0, 2): 7.0, (0, 3): 1.0, (1, 3): 2.0, (1, 0): 2.0}


class ByHand:
    """A reranker whose scores are SCORES, by what the sides say; the others are 0."""

    def mention_scores(self, sides, neighbours: Candidates) -> np.ndarray:
        scores = np.full(neighbours.numbers.shape, -np.inf, dtype=np.float32)
        for row, column in np.argwhere(neighbours.numbers >= 0):
            other = neighbours.numbers[row, column]
            scores[row, column] = SCORES.get((sides[row], sides[other]), 0.0)
        return scores


def test_the_best_come_first_and_equal_ones_by_number() -> None:
    pairs = PairedMentions(ByHand(), [0, 1, 2, 3])
    found = pairs.scored(Candidates(NUMBERS, COSINES))
    assert found.numbers.tolist() == [[2, 1, 3], [0, 3, -1], [-1, -1, -1], [0, 1, 2]]
    assert found.scores[:2].tolist() == [[7.0, 1.0, 1.0], [2.0, 2.0, -np.inf]]


def test_those_at_some_places() -> None:
    assert PairedMentions(ByHand(), list("abcd")).of(np.array([3, 1])).sides == ["d", "b"]
