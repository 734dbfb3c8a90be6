"""A step of the retriever's trainer against autograd alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from spacy_pel.architectures import encoder_of
from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.adversarial import FGSM
from spacy_pel.models.losses import CrossEntropyLoss, ProxyLoss, ScoreLoss, Targets
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.gold_mention import GoldMention
from spacy_pel.training import adversarial_passes
from spacy_pel.training.negatives import Batch, Row
from spacy_pel.training.retriever_trainer import RetrieverTrainer
from spacy_pel.training.trainer import StepLoss

from ..towers import ENTITIES, MENTIONS, bert_vector, retriever

# The first proxy serves two mentions; each of the others is a negative, or nothing, to some.
TARGETS = Targets(
    np.array([0, 1, 2, 0]),
    np.array(
        [
            [False, True, True, False, True],
            [True, False, False, True, False],
            [True, True, False, True, True],
            [False, False, False, False, False],
        ]
    ),
)


GOLD = [GoldMention(context, (i,)) for context, i in zip(MENTIONS, TARGETS.positive.tolist())]
ROWS = [Row(entity, 0) for entity in range(len(ENTITIES))]


class FixedPool:
    """A row for each of ENTITIES."""

    mined = None

    def positive_rows(self, surfaces: Sequence[str], entities: Sequence[int], rng) -> list[Row]:
        assert len(surfaces) == 4
        return [ROWS[entity] for entity in entities]

    def texts(self, rows: Sequence[Row], rng) -> list[EntityText]:
        return [ENTITIES[row.entity] for row in rows]


def all_rows(batch: Batch, pool: FixedPool, rng) -> tuple[list[Row], Targets]:
    """A sampler that gives TARGETS."""
    assert batch.vectors.shape == (4, 32)
    assert batch.positives == [ROWS[column] for column in TARGETS.positive]
    return ROWS, TARGETS


def step(linker: Retriever, loss: ScoreLoss, fgsm: FGSM | None) -> StepLoss:
    random = np.random.default_rng(0)
    return RetrieverTrainer(linker, FixedPool(), loss, all_rows, random, fgsm=fgsm).step(GOLD)


def gradients(linker: Retriever) -> dict[str, Tensor]:
    """By the name of the weight and the place of its tower; zeros where there is none."""
    return {
        f"{place}.{name}": torch.zeros_like(weight) if weight.grad is None else weight.grad
        for place, tower in enumerate(linker.model.layers)
        for name, weight in encoder_of(tower).named_parameters()
    }


def naive_proxy_loss(positive: Tensor, negatives: list[Tensor]) -> Tensor:
    push = sum((torch.exp(8 * s) for s in negatives), torch.zeros(()))
    return torch.log(1 + torch.exp(-8 * positive)) + torch.log(1 + push)


def naive_cross_entropy(positive: Tensor, negatives: list[Tensor]) -> Tensor:
    total = sum((torch.exp(s) for s in [positive, *negatives]), torch.zeros(()))
    return -torch.log(torch.exp(positive) / total)


def mean_loss(naive, mentions: list[Tensor], entities: list[Tensor]) -> Tensor:
    losses = []
    for i, vector in enumerate(mentions):
        negatives = [vector @ entities[c] for c in np.flatnonzero(TARGETS.negatives[i])]
        losses.append(naive(vector @ entities[TARGETS.positive[i]], negatives))
    return sum(losses) / len(losses)


def naive_step(linker: Retriever, naive, epsilon: float, weight: float) -> StepLoss:
    """Eq. 8, text by text with autograd alone; leaves its gradients on the weights."""
    mention_encoder = encoder_of(linker.mention_tower).eval()
    entity_encoder = encoder_of(linker.entity_tower).eval()
    tokens = linker.entity_tokens(ENTITIES)
    embeddings = [torch.zeros(len(t.ids), 32, requires_grad=True) for t in tokens]
    mentions = [bert_vector(mention_encoder, t) for t in linker.mention_inputs(MENTIONS).tokens]
    entities = [bert_vector(entity_encoder, t, z) for t, z in zip(tokens, embeddings)]
    clean = mean_loss(naive, mentions, entities)
    by_embeddings = torch.autograd.grad(clean, embeddings, retain_graph=True)
    added = [epsilon * gradient.sign() for gradient in by_embeddings]
    perturbed = [bert_vector(entity_encoder, t, a) for t, a in zip(tokens, added)]
    adversarial = weight * mean_loss(naive, mentions, perturbed)
    (clean + adversarial).backward()
    return StepLoss(clean.item(), adversarial.item())


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize(
    ("loss", "naive"),
    [(ProxyLoss(alpha=8), naive_proxy_loss), (CrossEntropyLoss(), naive_cross_entropy)],
)
def test_the_adversarial_step_equals_pure_torch(
    shared: bool, weight: float, loss: ScoreLoss, naive
) -> None:
    ours = retriever(shared=shared, layers=2)
    reference = Retriever(copy.deepcopy(ours.model))
    expected_loss = naive_step(reference, naive, 0.01, weight)
    value = step(ours, loss, FGSM(epsilon=0.01, weight=weight))
    assert value == pytest.approx(expected_loss, rel=1e-4)
    assert value.adversarial > weight * value.clean
    expected = gradients(reference)
    for name, gradient in gradients(ours).items():
        scale = expected[name].abs().max().item()
        # The weights of keys' biases have no gradient but rounding.
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-3 * scale + 1e-6)
    assert sum(g.abs().max() > 1e-3 for g in expected.values()) > 20 * len(ours.model.layers)


def naive_step_of_pairs(linker: Retriever, naive, epsilon: float, weight: float) -> StepLoss:
    """Eq. 6 to 8, one pair of mention and proxy at a time; leaves its gradients on the weights."""
    mention_encoder = encoder_of(linker.mention_tower).eval()
    entity_encoder = encoder_of(linker.entity_tower).eval()
    tokens = linker.entity_tokens(ENTITIES)
    mentions = [bert_vector(mention_encoder, t) for t in linker.mention_inputs(MENTIONS).tokens]

    def scores(i: int, column: int, sign: int) -> tuple[Tensor, Tensor]:
        z = torch.zeros(len(tokens[column].ids), 32, requires_grad=True)
        clean = mentions[i] @ bert_vector(entity_encoder, tokens[column], z)
        (gradient,) = torch.autograd.grad(clean, z, retain_graph=True)
        added = sign * epsilon * gradient.sign()
        return clean, mentions[i] @ bert_vector(entity_encoder, tokens[column], added)

    losses = []
    for i in range(len(mentions)):
        positives = scores(i, TARGETS.positive[i], -1)
        columns = np.flatnonzero(TARGETS.negatives[i])
        negatives = [scores(i, column, 1) for column in columns]
        losses.append([naive(s, [n[term] for n in negatives]) for term, s in enumerate(positives)])
    clean, adversarial = (sum(terms) / len(mentions) for terms in zip(*losses))
    (clean + weight * adversarial).backward()
    return StepLoss(clean.item(), weight * adversarial.item())


@pytest.mark.parametrize("held_tokens", [1, 8192])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("loss", "naive"),
    [(ProxyLoss(alpha=8), naive_proxy_loss), (CrossEntropyLoss(), naive_cross_entropy)],
)
def test_the_step_of_pairs_equals_pure_torch(
    shared: bool, loss: ScoreLoss, naive, held_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adversarial_passes, "HELD_TOKENS", held_tokens)
    ours = retriever(shared=shared, layers=2)
    reference, of_batch = (Retriever(copy.deepcopy(ours.model)) for _ in range(2))
    expected_loss = naive_step_of_pairs(reference, naive, 0.01, 0.3)
    value = step(ours, loss, FGSM(epsilon=0.01, weight=0.3, per_pair=True))
    assert value == pytest.approx(expected_loss, rel=1e-4)
    assert value.adversarial > step(of_batch, loss, FGSM(epsilon=0.01, weight=0.3)).adversarial
    expected = gradients(reference)
    for name, gradient in gradients(ours).items():
        scale = expected[name].abs().max().item()
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-3 * scale + 1e-6)


def test_pairs_without_epsilon_are_the_proxies_of_the_batch() -> None:
    pairs, batch = retriever(), retriever()
    value = step(pairs, ProxyLoss(), FGSM(epsilon=0.0, per_pair=True))
    assert value == pytest.approx(step(batch, ProxyLoss(), FGSM(epsilon=0.0)), rel=1e-5)
    for name, gradient in gradients(pairs).items():
        torch.testing.assert_close(gradient, gradients(batch)[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_the_clean_step_equals_pure_torch(shared: bool) -> None:
    ours = retriever(shared=shared)
    reference = Retriever(copy.deepcopy(ours.model))
    clean = naive_step(reference, naive_proxy_loss, 0.0, 0.0).clean
    assert step(ours, ProxyLoss(alpha=8), None) == (pytest.approx(clean, rel=1e-5), 0.0)
    expected = gradients(reference)
    for name, gradient in gradients(ours).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5)


def test_without_epsilon_both_losses_are_one() -> None:
    value = step(retriever(), ProxyLoss(), FGSM(epsilon=0.0))
    assert value.adversarial == pytest.approx(value.clean, rel=1e-6)
    clean, doubled = retriever(), retriever()
    step(clean, ProxyLoss(), None)
    step(doubled, ProxyLoss(), FGSM(epsilon=0.0))
    for name, gradient in gradients(doubled).items():
        torch.testing.assert_close(gradient, 2 * gradients(clean)[name], rtol=1e-3, atol=1e-5)


def test_gradients_of_steps_add_up() -> None:
    once, twice = retriever(), retriever()
    step(once, ProxyLoss(), FGSM())
    step(twice, ProxyLoss(), FGSM())
    step(twice, ProxyLoss(), FGSM())
    for name, gradient in gradients(twice).items():
        torch.testing.assert_close(gradient, 2 * gradients(once)[name])


@pytest.mark.parametrize(
    ("fgsm", "passes", "inputs"),
    # 4 positives and 9 negatives are 13 pairs.
    [(None, 1, 5), (FGSM(), 2, 5), (FGSM(per_pair=True), 2, 13)],
)
def test_passes_of_each_tower(fgsm: FGSM | None, passes: int, inputs: int) -> None:
    linker = retriever(shared=False)
    seen: list[tuple[str, int]] = []
    for side, tower in (("mention", linker.mention_tower), ("entity", linker.entity_tower)):
        encoder_of(tower).register_forward_hook(
            lambda module, inputs, output, side=side: seen.append((side, len(output)))
        )
    step(linker, ProxyLoss(), fgsm)
    assert seen == [("mention", 4)] + [("entity", inputs)] * passes
