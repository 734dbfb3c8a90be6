from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from thinc.api import Adam, Optimizer
from torch import Tensor

from spacy_pel.architectures import DocumentEncoder, ScratchEncoder, encoder_of, set_dropout
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.linking.link import link
from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.losses import CrossEntropyLoss, ProxyLoss
from spacy_pel.reading.gold_mention import GoldMention
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.reading.proxies import proxy_texts
from spacy_pel.training.mention_trainer import MentionTrainer
from spacy_pel.training.negatives import InBatchNegatives, MixedNegatives, RandomNegatives, Row
from spacy_pel.training.optimizer import AdamW, apply_gradients, torch_parameters
from spacy_pel.training.stored_pool import StoredPool

from ..towers import MENTIONS, TEXTS, bert_vector, retriever
from .problem import same, weights
from .stored import embedded_kb, ranking

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS",), ("Disease",)),
    Entity("C1", "Mass spectrometry", ("MS",), ("Procedure",)),
    Entity("C2", "Mitral stenosis", (), ("Disease",)),
    Entity("C3", "Aspirin"),
    Entity("C4", "murmur of the heart"),
]
GOLD = [GoldMention(context, (number,)) for number, context in enumerate(MENTIONS)]
POSITIVES = [Row(0, 1), Row(1, 1), Row(2, 0), Row(3, 0)]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    linker = retriever(shared=False)
    return embedded_kb(tmp_path_factory.mktemp("mentions") / "kb", ENTITIES, linker)


def make_trainer(
    kb: KnowledgeBase, loss=ProxyLoss(), negatives=RandomNegatives(4), seed=0
) -> MentionTrainer:
    pool = StoredPool(kb, "name", 0.0)
    linker = retriever(shared=False)
    return MentionTrainer(linker, pool, loss, negatives, np.random.default_rng(seed))


def train(trainer: MentionTrainer, optimizer: Optimizer, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        losses.append(sum(trainer.step(GOLD)))
        apply_gradients(trainer.model, optimizer)
        trainer.note_update()
    return losses


def best_entities(trainer: MentionTrainer) -> list[int]:
    return link(trainer.retriever, trainer.pool.kb, MENTIONS, 1).numbers[:, 0].tolist()


# Gradients


def naive_proxy_loss(positive: Tensor, negatives: list[Tensor]) -> Tensor:
    push = sum((torch.exp(8 * s) for s in negatives), torch.zeros(()))
    return torch.log(1 + torch.exp(-8 * positive)) + torch.log(1 + push)


def naive_cross_entropy(positive: Tensor, negatives: list[Tensor]) -> Tensor:
    total = sum((torch.exp(5 * s) for s in [positive, *negatives]), torch.zeros(()))
    return -torch.log(torch.exp(5 * positive) / total)


def others_positives(linker: Retriever, kb: KnowledgeBase, i: int) -> list[Row]:
    return [row for row in POSITIVES if row.entity != i]


def two_hardest(linker: Retriever, kb: KnowledgeBase, i: int) -> list[Row]:
    (vector,) = linker.mention_vectors(MENTIONS[i : i + 1])
    return [row for _, row in ranking(kb, linker, "name", vector) if row.entity != i][:2]


def naive_step(linker: Retriever, kb: KnowledgeBase, naive, negatives) -> float:
    """Mention by mention with autograd alone; leaves its gradients on the mention tower."""
    entity_encoder = encoder_of(linker.entity_tower).eval()
    mention_encoder = encoder_of(linker.mention_tower).eval()

    def proxy(row: Row) -> Tensor:
        text = proxy_texts(ENTITIES[row.entity], "name")[row.name]
        return bert_vector(entity_encoder, linker.entity_tokens([text])[0]).detach()

    losses = []
    for i, tokens in enumerate(linker.mention_inputs(MENTIONS).tokens):
        vector = bert_vector(mention_encoder, tokens)
        wrong = [vector @ proxy(row) for row in negatives(linker, kb, i)]
        losses.append(naive(vector @ proxy(POSITIVES[i]), wrong))
    mean = sum(losses) / len(losses)
    mean.backward()
    return mean.item()


@pytest.mark.parametrize(
    ("sampler", "negatives"),
    [(InBatchNegatives(), others_positives), (MixedNegatives(n=2, p=1), two_hardest)],
)
@pytest.mark.parametrize(
    ("loss", "naive"),
    [(ProxyLoss(alpha=8), naive_proxy_loss), (CrossEntropyLoss(scale=5), naive_cross_entropy)],
)
def test_a_step_equals_pure_torch(kb, loss, naive, sampler, negatives) -> None:
    trainer, reference = make_trainer(kb, loss, sampler), retriever(shared=False)
    expected_loss = naive_step(reference, kb, naive, negatives)
    assert trainer.step(GOLD) == (pytest.approx(expected_loss, rel=1e-5), 0.0)
    expected = dict(encoder_of(reference.mention_tower).named_parameters())
    moved = 0
    for name, weight in encoder_of(trainer.retriever.mention_tower).named_parameters():
        torch.testing.assert_close(weight.grad, expected[name].grad, rtol=1e-3, atol=1e-4)
        moved += weight.grad.abs().max() > 1e-3
    assert moved > 15
    for _, weight in encoder_of(trainer.retriever.entity_tower).named_parameters():
        assert weight.grad is None


def test_gradients_of_steps_add_up(kb: KnowledgeBase) -> None:
    once, twice = (make_trainer(kb, negatives=InBatchNegatives()) for _ in range(2))
    once.step(GOLD)
    twice.step(GOLD)
    twice.step(GOLD)
    pairs = zip(*(encoder_of(t.retriever.mention_tower).parameters() for t in (once, twice)))
    for weight, doubled in pairs:
        torch.testing.assert_close(doubled.grad, 2 * weight.grad)


# Training


@pytest.mark.parametrize(
    "optimizer", [AdamW(0.002, weight_decay=0.5), Adam(0.002, L2=0.1, L2_is_weight_decay=True)]
)
def test_the_entity_tower_stays_and_the_mention_tower_learns(kb, optimizer) -> None:
    trainer = make_trainer(kb, negatives=MixedNegatives(4, p=0.5, in_batch=True))
    linker = trainer.retriever
    entities, mentions = weights(linker.entity_tower), weights(linker.mention_tower)
    fingerprint = linker.entity_fingerprint()
    assert best_entities(trainer) != [0, 1, 2, 3]
    losses = train(trainer, optimizer, 40)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert best_entities(trainer) == [0, 1, 2, 3]
    assert same(weights(linker.entity_tower), entities)
    assert linker.entity_fingerprint() == fingerprint == kb.fingerprint
    assert not any(np.array_equal(mentions[k], w) for k, w in weights(linker.mention_tower).items())


def test_the_seed_decides(kb: KnowledgeBase) -> None:
    def losses(seed: int) -> list[float]:
        return train(make_trainer(kb, seed=seed), AdamW(0.002), 3)

    assert losses(3) == losses(3)
    assert losses(3) != losses(4)


def test_counts_are_of_mentions_alone(kb: KnowledgeBase) -> None:
    trainer = make_trainer(kb, negatives=MixedNegatives(2))
    trainer.step([*GOLD, GOLD[0]])  # repeats of a name in a document are encoded once
    counts = trainer.counts
    assert (counts.mentions, counts.mention_inputs) == (5, 4)
    assert (counts.entity_inputs, counts.index_inputs, counts.pair_inputs) == (0, 0, 0)


def test_a_tower_that_reads_documents_learns_from_all_mentions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    source = ScratchEncoder(1, 32, 4, vocab_size=200, max_tokens=48)
    model = DocumentEncoder(source, shared=False, window=48, entity_length=24)
    model.initialize(X=TEXTS)
    set_dropout(model, 0.0)
    linker = Retriever(model)
    pool = StoredPool(embedded_kb(tmp_path / "kb", ENTITIES, linker), "name", 0.0)
    random = np.random.default_rng(0)
    trainer = MentionTrainer(linker, pool, ProxyLoss(), RandomNegatives(4), random)
    text = "Aspirin and aspirin and aspirin; MS"
    places = [(0, 7), (12, 19), (24, 31)]
    trainer.step([GoldMention(MentionInContext(text, a, b), (3,)) for a, b in places])
    assert trainer.counts.mention_inputs == 3
    losses = train(trainer, AdamW(0.005), 30)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert linker.entity_fingerprint() == pool.kb.fingerprint


# Going on from a checkpoint


def test_a_trainer_goes_on_from_a_state(kb: KnowledgeBase) -> None:
    def draws(trainer: MentionTrainer) -> list[float]:
        return [*trainer.step(GOLD), *trainer.step(GOLD), trainer.rng.random()]

    begun, resumed = (make_trainer(kb, negatives=MixedNegatives(4), seed=seed) for seed in (1, 2))
    draws(begun)
    resumed.restore(json.loads(json.dumps(begun.state())))
    assert resumed.counts == begun.counts
    assert draws(resumed) == draws(begun)
    assert resumed.state() == begun.state()


def test_entities_stay_frozen_when_weights_were_read_anew(kb: KnowledgeBase) -> None:
    trainer = make_trainer(kb)
    entities = weights(trainer.retriever.entity_tower)
    trainer.model.from_bytes(trainer.model.to_bytes())
    trainer.restore(trainer.state())
    trainer.step(GOLD)
    for _, weight in torch_parameters(trainer.model):
        if weight.grad is None:  # what several processes do before they average
            weight.grad = torch.zeros_like(weight)
    apply_gradients(trainer.model, AdamW(0.01, weight_decay=0.5))
    assert same(weights(trainer.retriever.entity_tower), entities)
