import numpy as np
import pytest

from spacy_pel.coreference.joint import mention_neighbours
from spacy_pel.kb.vectors.matrix import VectorMatrix


def made_up_vectors(n: int) -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(n, 8)).astype(np.float32)
    vectors[n // 2 :] = vectors[: n - n // 2]  # each twice
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_they_are_the_best_of_all_without_the_mention_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spacy_pel.coreference.joint._BATCH_SIZE", 7)
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
    monkeypatch.setattr("spacy_pel.coreference.joint.MAX_COMPARED", 100)
    found = mention_neighbours(VectorMatrix(vectors), 4)
    assert np.isin(exact.numbers, found.numbers).mean() > 0.9
    assert (found.numbers != np.arange(400)[:, None]).all()
    again = mention_neighbours(VectorMatrix(vectors), 4)
    assert (found.numbers == again.numbers).all() and (found.scores == again.scores).all()


def test_there_may_be_fewer_than_wanted() -> None:
    found = mention_neighbours(VectorMatrix(made_up_vectors(3)), 4)
    assert (found.numbers >= 0).sum(axis=1).tolist() == [2, 2, 2]
    assert mention_neighbours(VectorMatrix(made_up_vectors(3)), 0).numbers.shape == (3, 0)
