"""The loss of tags where several may be right."""

import numpy as np
import pytest

from spacy_pel.models.tagger import summed_loss


def test_the_loss_is_minus_the_log_of_the_summed_probability() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6, 5)).astype(np.float32)
    allowed = rng.random((6, 5)) < 0.5
    allowed[:, 0] = True
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)

    def naive(scores: np.ndarray) -> float:
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        return float(-np.log((p * allowed).sum(1)).mean())

    loss, gradient = summed_loss(scores, allowed)
    assert loss == pytest.approx(naive(scores), rel=1e-5)
    for place in np.ndindex(scores.shape):
        moved = scores.astype(np.float64)
        moved[place] += 1e-5
        slope = (naive(moved) - naive(scores.astype(np.float64))) / 1e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-4)
    assert np.allclose(
        gradient, (p - p * allowed / (p * allowed).sum(1, keepdims=True)) / 6, atol=1e-6
    )


def test_a_word_of_which_nothing_is_known_teaches_nothing() -> None:
    loss, gradient = summed_loss(np.ones((2, 3), np.float32), np.ones((2, 3), dtype=bool))
    assert loss == pytest.approx(0, abs=1e-6) and np.allclose(gradient, 0, atol=1e-7)
