import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spacy_pel.models.losses import (
    CrossEntropyLoss,
    MentionPairLoss,
    PositiveNegativeLoss,
    ProxyLoss,
    ScoreLoss,
    Targets,
    centred_proxy_loss,
    summed_loss,
)

# torch's softplus is linear beyond 20, which is off by 2e-9.
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-8}

# Naive losses of one mention, from s(m, e+) and all s(m, e-).


def naive_proxy_loss(alpha: float, delta: float, bias: float = 0):
    """Eq. 3 of s - bias."""

    def value(positive: Tensor, negatives: list[Tensor]) -> Tensor:
        pull = torch.log(1 + torch.exp(-alpha * (positive - bias - delta)))
        push = sum((torch.exp(alpha * (s - bias + delta)) for s in negatives), torch.zeros(()))
        return pull + torch.log(1 + push)

    return value


def naive_cross_entropy(scale: float):
    """Eq. 1, of scores times the scale."""

    def value(positive: Tensor, negatives: list[Tensor]) -> Tensor:
        total = sum(torch.exp(scale * s) for s in [positive, *negatives])
        return -torch.log(torch.exp(scale * positive) / total)

    return value


def naive_positive_negative(scale: float):
    """ArboEL's Eq. 6, of scores times the scale; 1 - p is summed, so that no digits are lost."""

    def value(positive: Tensor, negatives: list[Tensor]) -> Tensor:
        e = [torch.exp(scale * s) for s in [positive, *negatives]]
        rests = [sum(e[:i] + e[i + 1 :]) / sum(e) for i in range(1, len(e))]
        return -torch.log(e[0] / sum(e)) - sum((torch.log(r) for r in rests), torch.zeros(()))

    return value


LOSSES = [
    (ProxyLoss(), naive_proxy_loss(32, 0)),
    (ProxyLoss(alpha=3, delta=0.2), naive_proxy_loss(3, 0.2)),
    (ProxyLoss(8, 0.1, bias=0.7), naive_proxy_loss(8, 0.1, 0.7)),
    (CrossEntropyLoss(), naive_cross_entropy(1)),
    (CrossEntropyLoss(scale=20), naive_cross_entropy(20)),
    (PositiveNegativeLoss(scale=12), naive_positive_negative(12)),
]
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@both_types
@pytest.mark.parametrize(("loss", "naive"), LOSSES)
@given(seed=st.integers(0, 99_999), has_edges=st.booleans())
def test_values_and_gradients(loss: ScoreLoss, naive, dtype, seed: int, has_edges: bool) -> None:
    """Some mentions have no negative. With edges, mentions are sources as well as proxies."""
    rng = np.random.default_rng(seed)
    n, n_proxies, n_others = rng.integers(1, 4), rng.integers(1, 6), rng.integers(3) * has_edges
    drawn = rng.normal(size=(n + n_others, 4)), rng.normal(size=(n_proxies, 4))
    mentions, proxies = (unit(vectors).astype(dtype) for vectors in drawn)
    columns = n_proxies + (n + n_others) * has_edges
    targets = Targets(rng.integers(columns, size=n), rng.random((n, columns)) < rng.random())
    targets.negatives[np.arange(n), targets.positive] = False
    gradients, value = loss((mentions, proxies), targets)

    leaves = [torch.tensor(v.astype(np.float64), requires_grad=True) for v in (mentions, proxies)]
    sources = [*leaves[1], *leaves[0]]
    losses = []
    for mention, positive, is_negative in zip(leaves[0], *targets):
        negatives = [mention @ sources[column] for column in np.flatnonzero(is_negative)]
        losses.append(naive(mention @ sources[positive], negatives))
    expected = sum(losses) / len(losses) + 0 * sum(leaf.sum() for leaf in leaves)
    expected.backward()
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    np.testing.assert_allclose(value, expected.item(), **tolerance)
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, leaf.grad, **tolerance)


def gradients_of_scores(
    loss: ScoreLoss, positive: np.ndarray, negatives: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values [n], and gradients by s+ [n] and s- [n, r]; a score of -inf is masked."""
    s_positive = torch.tensor(positive, requires_grad=True)
    s_negatives = torch.tensor(negatives, requires_grad=True)
    values = loss.of_scores(s_positive, s_negatives)
    values.sum().backward()
    return values.detach().numpy(), s_positive.grad.numpy(), s_negatives.grad.numpy()


def first_batch(level: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Targets]:
    """Unit vectors whose cosines lie around a level, with right ones a little higher."""
    rng = np.random.default_rng(seed)
    common, own = np.zeros(64), rng.normal(size=(12, 64)) / 8
    common[0] = math.sqrt(level / (1 - level)) if level else 0
    sizes = (8, 0.8), (12, 1)
    mentions, entities = (common + own[:n] + s * rng.normal(size=(n, 64)) / 8 for n, s in sizes)
    positive = np.arange(8)
    negatives = rng.random((8, 12)) < 0.7
    negatives[np.arange(8), positive] = False
    negatives[3] = False  # a mention without negatives
    return unit(mentions), unit(entities), Targets(positive, negatives)


def naive_pull_and_push(scores, targets: Targets, loss: ProxyLoss) -> tuple[float, float]:
    """The sums of the pulls and of the pushes of all mentions, by Eq. 4."""
    scores, pull, push = scores - (loss.bias or 0), 0.0, 0.0
    for row, column, is_negative in zip(scores, *targets):
        e = math.exp(-loss.alpha * (row[column] - loss.delta))
        total = np.exp(loss.alpha * (row[is_negative] + loss.delta)).sum()
        pull, push = pull + e / (1 + e), push + total / (1 + total)
    return pull, push


@pytest.mark.parametrize("level", [0.9, 0.5, 0.0])
def test_the_first_batch_balances_pull_and_push(level: float) -> None:
    mentions, entities, targets = first_batch(level)
    scores = mentions @ entities.T
    loss = centred_proxy_loss()
    loss((mentions, entities), targets)
    pull, push = naive_pull_and_push(scores, targets, loss)
    assert pull == pytest.approx(push, rel=0.05)
    # Eq. 3 as printed balances none of them.
    printed = naive_pull_and_push(scores, targets, ProxyLoss())
    assert printed[0] != pytest.approx(printed[1], rel=0.5)
    # It is set once, and a loss that goes on from its state has it too.
    before = loss.bias
    loss((mentions, -entities), targets)
    again = centred_proxy_loss()
    again.restore(json.loads(json.dumps(loss.state())))
    assert loss.bias == again.bias == before
    loss.restore({})
    assert loss.bias is None


def test_a_batch_without_negatives_sets_no_bias_and_a_given_one_stays() -> None:
    loss, none = centred_proxy_loss(), np.full((2, 3), -np.inf)
    scores = np.array([0.3, 0.2])
    gradients_of_scores(loss, scores, none)
    assert loss.bias is None and loss.state() == {}
    loss = centred_proxy_loss(bias=0.5)
    gradients_of_scores(loss, scores, np.full((2, 3), 0.9))
    assert loss.bias == 0.5 and loss.state() == {}


@both_types
@pytest.mark.parametrize("loss", [ProxyLoss(), CrossEntropyLoss(20)])
def test_huge_scores_stay_finite(loss: ScoreLoss, dtype) -> None:
    corners = np.array([-1e4, 0, 1e4], dtype)
    positive = np.repeat(corners, 3)
    negatives = np.stack([np.tile(corners, 3), np.zeros(9, dtype)], axis=1)
    values, by_positive, by_negatives = gradients_of_scores(loss, positive, negatives)
    assert all(np.isfinite(x).all() for x in (values, by_positive, by_negatives))
    hopeless = (positive == -1e4) & (negatives[:, 0] == 1e4)
    strength = loss.alpha if isinstance(loss, ProxyLoss) else loss.scale
    assert by_positive[hopeless] == pytest.approx(-strength)
    assert by_negatives[hopeless, 0] == pytest.approx(strength)


@pytest.mark.parametrize("gap", [16.0, 80.0])
def test_a_positive_far_ahead_still_has_the_sign_that_fgsm_needs(gap: float) -> None:
    scores = np.array([[gap, 0.0, -1.0]], dtype=np.float32)
    targets = Targets(np.array([0]), np.array([[False, True, True]]))
    gradient, _ = CrossEntropyLoss().on_scores(scores, targets)
    np.testing.assert_array_equal(np.sign(gradient), [[-1, 1, 1]])


@both_types
def test_a_probability_near_one_keeps_its_digits(dtype) -> None:
    """1 - p of a negative that is far ahead is what the others have."""
    scores = np.array([[-30.0, 30.0, -20.0]], dtype=dtype)
    loss = PositiveNegativeLoss()
    values, d_positive, d_negatives = gradients_of_scores(loss, scores[:, 0], scores[:, 1:])
    assert values[0] == pytest.approx(60 + 50 - math.log1p(math.exp(-10)), rel=1e-5)
    assert np.isfinite(d_positive).all() and d_negatives[0, 0] == pytest.approx(2, rel=1e-4)


IDS = st.lists(st.integers(0, 4), min_size=1, max_size=2, unique=True).map(tuple)
GOLDS = st.lists(IDS, min_size=1, max_size=8)


def naive_pair_loss(vectors: np.ndarray, golds: list[tuple[int, ...]], scale: float) -> float:
    """The mean over the mentions that have a partner, and for each over its partners."""
    losses = []
    for i, mine in enumerate(golds):
        e = {k: math.exp(scale * (vectors[i] @ vectors[k])) for k in range(len(golds)) if k != i}
        partners = [k for k in e if set(mine) & set(golds[k])]
        wrong = sum(e[k] for k in e if k not in partners)
        if partners:
            losses.append(np.mean([-math.log(e[j] / (e[j] + wrong)) for j in partners]))
    return float(np.mean(losses)) if losses else 0.0


@given(GOLDS, st.integers(0, 99), st.sampled_from([1.0, 8.0]), st.sampled_from([1.0, 0.5]))
def test_the_loss_is_that_of_loops(golds, seed, scale, weight) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(golds), 3)) / 2
    gradient, loss = MentionPairLoss(scale, weight)(vectors, golds)
    expected = weight * naive_pair_loss(vectors, golds, scale)
    assert loss == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert gradient.shape == vectors.shape and gradient.dtype == vectors.dtype
    for i in range(len(golds)):  # central differences
        step = np.zeros_like(vectors)
        step[i, 0] = 1e-5
        above, below = (naive_pair_loss(v, golds, scale) for v in (vectors + step, vectors - step))
        slope = weight * (above - below) / 2e-5
        assert gradient[i, 0] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_the_loss_is_minus_the_log_of_the_summed_probability() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6, 5)).astype(np.float32)
    allowed = rng.random((6, 5)) < 0.5
    allowed[:, 0] = True
    allowed[5] = True  # a word of which nothing is known

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
    assert np.allclose(gradient[5], 0, atol=1e-7)  # it teaches nothing
