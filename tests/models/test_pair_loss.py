"""InfoNCE over pairs of mentions, against loops over the equation, and torch's own gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from spacy_pel.models.pair_loss import MentionPairLoss

GOLDS = st.lists(
    st.lists(st.integers(0, 4), min_size=1, max_size=2, unique=True).map(tuple),
    min_size=1,
    max_size=8,
)


def naive(vectors: np.ndarray, golds: list[tuple[int, ...]], scale: float) -> float:
    """The mean over the mentions that have a partner, and for each over its partners."""
    losses = []
    for i, mine in enumerate(golds):
        others = [k for k in range(len(golds)) if k != i]
        partners = [k for k in others if set(mine) & set(golds[k])]
        wrong = sum(
            math.exp(scale * (vectors[i] @ vectors[k])) for k in others if k not in partners
        )
        own = []
        for j in partners:
            right = math.exp(scale * (vectors[i] @ vectors[j]))
            own.append(-math.log(right / (right + wrong)))
        if own:
            losses.append(sum(own) / len(own))
    return sum(losses) / len(losses) if losses else 0.0


@settings(deadline=None)
@given(GOLDS, st.integers(0, 99), st.sampled_from([1.0, 8.0]), st.sampled_from([1.0, 0.5]))
def test_the_loss_is_that_of_loops(golds, seed, scale, weight) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(golds), 3)) / 2
    gradient, loss = MentionPairLoss(scale, weight)(vectors, golds)
    assert loss == pytest.approx(weight * naive(vectors, golds, scale), rel=1e-6, abs=1e-8)
    assert gradient.shape == vectors.shape and gradient.dtype == vectors.dtype
    for i in range(len(golds)):  # central differences
        step = np.zeros_like(vectors)
        step[i, 0] = 1e-5
        slope = naive(vectors + step, golds, scale) - naive(vectors - step, golds, scale)
        assert gradient[i, 0] == pytest.approx(weight * slope / 2e-5, rel=1e-4, abs=1e-6)


def test_two_mentions_of_each_entity_give_equation_2() -> None:
    """Eq. 1 is the cross-entropy of a softmax over all other mentions of the batch."""
    values = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    vectors = torch.tensor(values, requires_grad=True)
    scores = (vectors @ vectors.T).masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf)
    expected = cross_entropy(scores, torch.tensor([1, 0, 3, 2, 5, 4]))
    expected.backward()
    gradient, loss = MentionPairLoss()(values, [(7,), (7,), (1,), (1,), (3,), (3,)])
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(gradient, vectors.grad.numpy(), atol=1e-6)


def test_without_a_pair_or_without_a_negative_nothing_is_learnt() -> None:
    vectors = np.ones((3, 2), dtype=np.float32)
    for golds in ([(1,), (2,), (3,)], [(1,), (1,), (1,)]):
        gradient, loss = MentionPairLoss(32)(vectors, golds)
        assert loss == 0 and not gradient.any()
