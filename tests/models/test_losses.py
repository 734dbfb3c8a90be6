from __future__ import annotations

import json
import math
from textwrap import dedent

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.util import registry
from thinc.api import Config

from spacy_pel.errors import PelError
from spacy_pel.models.losses import (
    CrossEntropyLoss,
    MentionPairLoss,
    PositiveNegativeLoss,
    ProxyLoss,
    ScoreLoss,
    SumLoss,
    Targets,
    centred_proxy_loss,
)

# torch's softplus is linear beyond 20, which is off by 2e-9.
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-8}


def naive_proxy_loss(alpha: float, delta: float, bias: float = 0):
    """Eq. 3 and Eq. 4 of s - bias: the loss of one mention; its gradient by s+ and by each s-."""

    def value(positive: float, negatives: list[float]) -> float:
        negatives = [s - bias for s in negatives]
        pull = math.log(1 + math.exp(-alpha * (positive - bias - delta)))
        return pull + math.log(1 + sum(math.exp(alpha * (s + delta)) for s in negatives))

    def gradient(positive: float, negatives: list[float]) -> tuple[float, list[float]]:
        negatives = [s - bias for s in negatives]
        e = math.exp(-alpha * (positive - bias - delta))
        total = 1 + sum(math.exp(alpha * (s + delta)) for s in negatives)
        return -alpha * e / (1 + e), [
            alpha * math.exp(alpha * (s + delta)) / total for s in negatives
        ]

    return value, gradient


def naive_cross_entropy(scale: float):
    """Eq. 1 and Eq. 2, of scores times the scale."""

    def value(positive: float, negatives: list[float]) -> float:
        total = sum(math.exp(scale * s) for s in [positive, *negatives])
        return -math.log(math.exp(scale * positive) / total)

    def gradient(positive: float, negatives: list[float]) -> tuple[float, list[float]]:
        total = sum(math.exp(scale * s) for s in [positive, *negatives])
        by_negatives = [scale * math.exp(scale * s) / total for s in negatives]
        return scale * (math.exp(scale * positive) / total - 1), by_negatives

    return value, gradient


def naive_positive_negative(scale: float):
    """ArboEL's Eq. 6, of scores times the scale; 1 - p is summed, so that no digits are lost."""

    def shares(positive: float, negatives: list[float]) -> tuple[list[float], list[float]]:
        e = [math.exp(scale * s) for s in [positive, *negatives]]
        rest = [sum(e[:i] + e[i + 1 :]) for i in range(len(e))]
        return [x / sum(e) for x in e], [x / sum(e) for x in rest]

    def value(positive: float, negatives: list[float]) -> float:
        p, rest = shares(positive, negatives)
        return -math.log(p[0]) - sum(math.log(r) for r in rest[1:])

    def gradient(positive: float, negatives: list[float]) -> tuple[float, list[float]]:
        p, rest = shares(positive, negatives)
        odds = [x / r for x, r in zip(p[1:], rest[1:])]
        by_positive = scale * (-rest[0] - p[0] * sum(odds))
        by_negatives = [scale * (2 * x - x * (sum(odds) - odd)) for x, odd in zip(p[1:], odds)]
        return by_positive, by_negatives

    return value, gradient


def naive_sum(*losses):
    """Value and gradients of a sum of naive losses."""

    def value(positive: float, negatives: list[float]) -> float:
        return sum(loss[0](positive, negatives) for loss in losses)

    def gradient(positive: float, negatives: list[float]) -> tuple[float, list[float]]:
        by_positive, by_negatives = zip(*(loss[1](positive, negatives) for loss in losses))
        return sum(by_positive), [sum(column) for column in zip(*by_negatives)]

    return value, gradient


LOSSES = [
    (ProxyLoss(), naive_proxy_loss(32, 0)),
    (ProxyLoss(alpha=3, delta=0.2), naive_proxy_loss(3, 0.2)),
    (ProxyLoss(8, 0.1, bias=0.7), naive_proxy_loss(8, 0.1, 0.7)),
    (CrossEntropyLoss(), naive_cross_entropy(1)),
    (CrossEntropyLoss(scale=20), naive_cross_entropy(20)),
    (PositiveNegativeLoss(scale=12), naive_positive_negative(12)),
    (
        SumLoss(ProxyLoss(8, 0.1), CrossEntropyLoss(scale=20)),
        naive_sum(naive_proxy_loss(8, 0.1), naive_cross_entropy(20)),
    ),
]
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
every_loss = pytest.mark.parametrize(("loss", "naive"), LOSSES)


def gradients_of_scores(
    loss: ScoreLoss, positive: np.ndarray, negatives: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values [n], and gradients by s+ [n] and s- [n, r]; a score of -inf is masked."""
    s_positive = torch.tensor(positive, requires_grad=True)
    s_negatives = torch.tensor(negatives, requires_grad=True)
    values = loss.of_scores(s_positive, s_negatives)
    values.sum().backward()
    return values.detach().numpy(), s_positive.grad.numpy(), s_negatives.grad.numpy()


@both_types
@every_loss
@settings(deadline=None)
@given(data=st.data())
def test_values_and_gradients_of_scores(loss: ScoreLoss, naive, dtype, data) -> None:
    score = st.floats(-1, 1, width=32)
    positive = data.draw(score)
    negatives = data.draw(st.lists(score, max_size=6))
    value, by_positive, by_negatives = gradients_of_scores(
        loss, np.array([positive], dtype), np.array([negatives], dtype)
    )
    expected_positive, expected_negatives = naive[1](positive, negatives)
    tolerance = TOLERANCE[dtype]
    assert value.dtype == dtype and by_positive.dtype == dtype
    assert value[0] == pytest.approx(naive[0](positive, negatives), rel=tolerance, abs=tolerance)
    assert by_positive[0] == pytest.approx(expected_positive, rel=tolerance, abs=tolerance)
    assert by_negatives[0] == pytest.approx(expected_negatives, rel=tolerance, abs=tolerance)


def first_batch(level: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Targets]:
    """Unit vectors whose cosines lie around a level, with right ones a little higher."""
    rng = np.random.default_rng(seed)
    common, own = np.zeros(64), rng.normal(size=(12, 64)) / 8
    common[0] = math.sqrt(level / (1 - level)) if level else 0
    mentions, entities = (
        common + own[:n] + scale * rng.normal(size=(n, 64)) / 8 for n, scale in ((8, 0.8), (12, 1))
    )
    positive = np.arange(8)
    negatives = rng.random((8, 12)) < 0.7
    negatives[np.arange(8), positive] = False
    negatives[3] = False  # a mention without negatives
    mentions, entities = (
        v / np.linalg.norm(v, axis=1, keepdims=True) for v in (mentions, entities)
    )
    return mentions, entities, Targets(positive, negatives)


def naive_pull_and_push(
    scores: np.ndarray, targets: Targets, loss: ProxyLoss
) -> tuple[float, float]:
    """The sums of the gradients by the scores of positives and of negatives, by Eq. 4."""
    _, gradient = naive_proxy_loss(loss.alpha, loss.delta, loss.bias or 0)
    pull = push = 0.0
    for row, column, is_negative in zip(scores, targets.positive, targets.negatives):
        by_positive, by_negatives = gradient(row[column], list(row[is_negative]))
        pull, push = pull - by_positive, push + sum(by_negatives)
    return pull, push


@pytest.mark.parametrize("level", [0.9, 0.5, 0.0])
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: SumLoss(CrossEntropyLoss(32), x)])
def test_the_first_batch_balances_pull_and_push(level: float, wrap) -> None:
    mentions, entities, targets = first_batch(level)
    scores = mentions @ entities.T
    loss = centred_proxy_loss()
    wrap(loss)((mentions, entities), targets)
    pull, push = naive_pull_and_push(scores, targets, loss)
    assert pull == pytest.approx(push, rel=0.05)
    # Eq. 3 as printed balances none of them.
    printed = naive_pull_and_push(scores, targets, ProxyLoss())
    assert not printed[0] == pytest.approx(printed[1], rel=0.5)
    # It is set once, and a loss that goes on from its state has it too.
    before = loss.bias
    wrap(loss)((mentions, -entities), targets)
    again = centred_proxy_loss()
    wrap(again).restore(json.loads(json.dumps(wrap(loss).state())))
    assert loss.bias == again.bias == before
    wrap(loss).restore({})
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


@both_types
@every_loss
def test_gradients_of_vectors_follow_by_the_chain_rule(loss: ScoreLoss, naive, dtype) -> None:
    rng = np.random.default_rng(0)
    mentions, entities = rng.normal(size=(3, 5)), rng.normal(size=(6, 5))
    mentions /= np.linalg.norm(mentions, axis=1, keepdims=True)
    entities /= np.linalg.norm(entities, axis=1, keepdims=True)
    positive = np.array([2, 0, 2])
    negatives = np.zeros((3, 6), dtype=bool)
    negatives[0, [0, 1, 5]] = True
    negatives[1, 3] = True  # the third mention has none
    d_mentions, d_entities, values = np.zeros((3, 5)), np.zeros((6, 5)), []
    for i in range(3):
        columns = np.flatnonzero(negatives[i])
        scores = [float(mentions[i] @ e) for e in entities]
        s_positive, s_negatives = scores[positive[i]], [scores[c] for c in columns]
        values.append(naive[0](s_positive, s_negatives))
        by_positive, by_negatives = naive[1](s_positive, s_negatives)
        for column, d_score in zip([positive[i], *columns], [by_positive, *by_negatives]):
            d_mentions[i] += d_score * entities[column] / 3  # the mean over three mentions
            d_entities[column] += d_score * mentions[i] / 3
    vectors = (mentions.astype(dtype), entities.astype(dtype))
    targets = Targets(positive, negatives)
    gradients, value = loss(vectors, targets)
    assert value == pytest.approx(np.mean(values), rel=TOLERANCE[dtype])
    for gradient, expected in zip(gradients, (d_mentions, d_entities), strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, expected, atol=TOLERANCE[dtype])
    assert (gradients[1][4] == 0).all()  # a proxy that nobody was asked about


@pytest.mark.parametrize("gap", [16.0, 80.0])
def test_a_positive_far_ahead_still_has_the_sign_that_fgsm_needs(gap: float) -> None:
    scores = np.array([[gap, 0.0, -1.0]], dtype=np.float32)
    targets = Targets(np.array([0]), np.array([[False, True, True]]))
    gradient, _ = CrossEntropyLoss().on_scores(scores, targets)
    np.testing.assert_array_equal(np.sign(gradient), [[-1, 1, 1]])


def test_a_sum_is_made_by_a_config() -> None:
    config = dedent("""
    [loss]
    @losses = "spacy-pel.SumLoss.v1"

    [loss.*.proxies]
    @losses = "spacy-pel.ProxyLoss.v1"
    alpha = 8

    [loss.*.softmax]
    @losses = "spacy-pel.CrossEntropyLoss.v1"
    scale = 32
    """)
    proxies, softmax = registry.resolve(Config().from_str(config))["loss"].losses
    assert (proxies.alpha, softmax.scale) == (8, 32)
    with pytest.raises(PelError, match="give at least one loss"):
        SumLoss()


@pytest.mark.parametrize("loss", [PositiveNegativeLoss(4), ProxyLoss(alpha=4)])
def test_edges_come_from_entities_and_from_mentions(loss: ScoreLoss) -> None:
    rng = np.random.default_rng(0)
    mentions, entities = rng.normal(size=(5, 3)), rng.normal(size=(2, 3))
    # Two mentions of five are trained; their columns are the two entities, then the five mentions.
    positive = np.array([1, 5])
    negatives = np.array([[True, False, False, True, False, True, False], [False] * 6 + [True]])
    (d_mentions, d_entities), value = loss((mentions, entities), Targets(positive, negatives))
    m, e = (torch.tensor(v, requires_grad=True) for v in (mentions, entities))
    first = loss.of_scores(
        (m[0] @ e[1])[None], torch.stack([m[0] @ e[0], m[0] @ m[1], m[0] @ m[3]])[None]
    )
    second = loss.of_scores((m[1] @ m[3])[None], (m[1] @ m[4])[None, None])
    expected = (first + second).sum() / 2
    expected.backward()
    assert value == pytest.approx(expected.item())
    np.testing.assert_allclose(d_mentions, m.grad.numpy(), atol=1e-12)
    np.testing.assert_allclose(d_entities, e.grad.numpy(), atol=1e-12)


@both_types
def test_a_probability_near_one_keeps_its_digits(dtype) -> None:
    """1 - p of a negative that is far ahead is what the others have."""
    scores = np.array([[-30.0, 30.0, -20.0]], dtype=dtype)
    values, d_positive, d_negatives = gradients_of_scores(
        PositiveNegativeLoss(), scores[:, 0], scores[:, 1:]
    )
    assert values[0] == pytest.approx(60 + 50 - math.log1p(math.exp(-10)), rel=1e-5)
    assert np.isfinite(d_positive).all() and d_negatives[0, 0] == pytest.approx(2, rel=1e-4)


# Pairs of mentions

GOLDS = st.lists(
    st.lists(st.integers(0, 4), min_size=1, max_size=2, unique=True).map(tuple),
    min_size=1,
    max_size=8,
)


def naive_pair_loss(vectors: np.ndarray, golds: list[tuple[int, ...]], scale: float) -> float:
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
    assert loss == pytest.approx(
        weight * naive_pair_loss(vectors, golds, scale), rel=1e-6, abs=1e-8
    )
    assert gradient.shape == vectors.shape and gradient.dtype == vectors.dtype
    for i in range(len(golds)):  # central differences
        step = np.zeros_like(vectors)
        step[i, 0] = 1e-5
        slope = naive_pair_loss(vectors + step, golds, scale) - naive_pair_loss(
            vectors - step, golds, scale
        )
        assert gradient[i, 0] == pytest.approx(weight * slope / 2e-5, rel=1e-4, abs=1e-6)
