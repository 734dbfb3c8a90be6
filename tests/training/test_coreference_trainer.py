"""Steps on edges from entities and mentions: against autograd alone, and a small problem."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from thinc.api import Adam

from spacy_pel.architectures import DocumentEncoder, ScratchEncoder, encoder_of
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.link import link
from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.adversarial import FGSM
from spacy_pel.models.losses import PositiveNegativeLoss, ProxyLoss, ScoreLoss, centred_proxy_loss
from spacy_pel.models.pair_loss import MentionPairLoss
from spacy_pel.reading.gold_mention import GoldMention
from spacy_pel.reading.proxies import proxy_texts
from spacy_pel.training.coreference_trainer import CoreferenceTrainer
from spacy_pel.training.gold_edges import Arborescence
from spacy_pel.training.mention_index import MentionIndex
from spacy_pel.training.negatives import MixedNegatives
from spacy_pel.training.proxy_pool import ProxyPool

from ..towers import TEXTS, bert_vector, mention, retriever
from .test_gold_tree import ENTITY, after_deletions
from .test_retriever_gradients import gradients

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS",), ("Disease",)),
    Entity("C1", "Mass spectrometry", ("MS",), ("Procedure",)),
    Entity("C2", "Mitral stenosis", (), ("Disease",)),
    Entity("C3", "Aspirin"),
    Entity("C4", "murmur of the heart"),
]
# Entity 3 has one mention.
PLACES = [
    *((0, name, 0) for name in ("MS", "Multiple sclerosis", "disease", "lesions")),
    *((1, name, 1) for name in ("MS", "Mass spectrometry", "spectrum")),
    *((2, name, 2) for name in ("Mitral stenosis", "valve")),
    (3, "Aspirin", 3),
]
GOLD = [GoldMention(mention(TEXTS[text], name), (n,), TEXTS[text]) for text, name, n in PLACES]
BATCH = [GOLD[place] for place in (0, 2, 5, 7, 9)]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path_factory.mktemp("coreference") / "kb")


def make_trainer(
    kb: KnowledgeBase,
    loss: ScoreLoss = PositiveNegativeLoss(8),
    chooser=Arborescence(negatives=2, refresh=3),
    fgsm: FGSM | None = None,
    seed: int = 0,
    linker: Retriever | None = None,
    **more,
) -> CoreferenceTrainer:
    linker = linker or retriever(shared=False)
    numbers = np.arange(len(kb))
    index = MentionIndex(GOLD, linker)
    pool = ProxyPool(kb, linker, "entity", numbers, numbers, 0.0, mentions=index)
    negatives = MixedNegatives(2, p=1.0, refresh=3)
    rng = np.random.default_rng(seed)
    return CoreferenceTrainer(linker, pool, loss, fgsm, negatives, rng, coreference=chooser, **more)


def naive_equation_6(positive, negatives):
    exponentials = [torch.exp(8 * s) for s in [positive, *negatives]]
    p = [e / sum(exponentials) for e in exponentials]
    return -torch.log(p[0]) - sum(torch.log(1 - each) for each in p[1:])


def naive_equation_3(positive, negatives):
    push = sum(torch.exp(8 * s) for s in negatives)
    return torch.log(1 + torch.exp(-8 * positive)) + torch.log(1 + push)


def naive_step(linker: Retriever, naive) -> float:
    """A step on BATCH with everything searched by brute force; leaves gradients on the weights."""
    mentions, entities = (encoder_of(t).eval() for t in (linker.mention_tower, linker.entity_tower))
    inputs = linker.mention_inputs([m.context for m in GOLD]).tokens
    of_mentions = [bert_vector(mentions, tokens) for tokens in inputs]
    texts = [proxy_texts(entity, "entity")[0] for entity in ENTITIES]
    of_entities = [bert_vector(entities, tokens) for tokens in linker.entity_tokens(texts)]
    values, rows = (torch.stack(v).detach().numpy() for v in (of_mentions, of_entities))
    losses = []
    for vector, gold in ((of_mentions[GOLD.index(m)], m.golds[0]) for m in BATCH):
        number = next(i for i, v in enumerate(of_mentions) if v is vector)
        cluster = [i for i, m in enumerate(GOLD) if m.golds[0] == gold]
        others = [i for i in range(len(GOLD)) if i not in cluster]
        source = after_deletions(values[cluster], rows[[gold]])[cluster.index(number)]
        positive = of_entities[gold] if source == ENTITY else of_mentions[cluster[source]]
        wrong = sorted(set(range(len(ENTITIES))) - {gold}, key=lambda e: -rows[e] @ values[number])
        others.sort(key=lambda i: -values[i] @ values[number])
        sources = [of_entities[e] for e in wrong[:2]] + [of_mentions[i] for i in others[:2]]
        losses.append(naive(vector @ positive, [vector @ other for other in sources]))
    loss = sum(losses) / len(losses)
    loss.backward()
    return loss.item()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("loss", "naive"),
    [(PositiveNegativeLoss(8), naive_equation_6), (ProxyLoss(alpha=8), naive_equation_3)],
)
def test_a_step_equals_pure_torch(kb: KnowledgeBase, shared: bool, loss, naive) -> None:
    ours = retriever(shared=shared, layers=2)
    reference = Retriever(copy.deepcopy(ours.model))
    value = make_trainer(kb, loss, linker=ours).step(BATCH)
    assert value == (pytest.approx(naive_step(reference, naive), rel=1e-4), 0.0)
    expected = gradients(reference)
    for name, gradient in gradients(ours).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-5)


def train(trainer: CoreferenceTrainer, steps: int) -> list[float]:
    optimizer = Adam(0.002)
    losses = []
    for _ in range(steps):
        losses.append(sum(trainer.step(GOLD)))
        trainer.retriever.model.finish_update(optimizer)
        trainer.note_update()
    return losses


@pytest.mark.parametrize(
    ("among", "loss", "fgsm"),
    [
        ("all", PositiveNegativeLoss(8), None),
        ("nearest", ProxyLoss(alpha=8), FGSM()),
        ("random", PositiveNegativeLoss(8), None),
    ],
)
def test_a_small_problem_is_learned(kb: KnowledgeBase, among: str, loss, fgsm) -> None:
    trainer = make_trainer(kb, loss, Arborescence(among, 2, 3), fgsm)
    losses = train(trainer, 30)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    found = link(trainer.retriever, trainer.pool, [m.context for m in GOLD], 1).numbers[:, 0]
    assert found.tolist() == [m.golds[0] for m in GOLD]


def test_the_seed_decides(kb: KnowledgeBase) -> None:
    def losses(seed: int) -> list[float]:
        return train(make_trainer(kb, chooser=Arborescence("random", 2, 3), seed=seed), 4)

    assert losses(3) == losses(3) != losses(4)


def test_it_goes_on_from_a_state(kb: KnowledgeBase) -> None:
    chooser = Arborescence("random", 1, 2)
    begun, resumed = (
        make_trainer(kb, centred_proxy_loss(), chooser=chooser, seed=seed) for seed in (1, 2)
    )
    begun.step(BATCH)
    resumed.restore(json.loads(json.dumps(begun.state())))
    assert resumed.counts == begun.counts
    assert [resumed.step(BATCH) for _ in range(3)] == [begun.step(BATCH) for _ in range(3)]
    assert resumed.state() == begun.state() and "bias" in begun.state()["loss"]


def test_both_indexes_are_refreshed_together(kb: KnowledgeBase) -> None:
    trainer = make_trainer(kb)
    history = []
    for _ in range(7):
        trainer.step(BATCH)
        history.append(trainer.counts.index_inputs)
        trainer.note_update()
    both = len(ENTITIES) + len(GOLD)
    assert history == [both] * 3 + [2 * both] * 3 + [3 * both]


def test_counts_are_what_went_through_the_encoders(kb: KnowledgeBase) -> None:
    trainer = make_trainer(kb)
    trainer.pool.refresh_every(1)
    encoded = {"mention": 0, "entity": 0}
    for name in encoded:

        def count(module, inputs, output, name=name) -> None:
            encoded[name] += len(output)

        encoder_of(trainer.retriever.model.get_ref(name)).register_forward_hook(count)
    trainer.step(BATCH)
    counts = trainer.counts
    assert (counts.mentions, counts.mention_inputs) == (len(BATCH), encoded["mention"])
    assert counts.entity_inputs == encoded["entity"] <= len(ENTITIES)


def test_pairs_of_mentions_are_added(kb: KnowledgeBase) -> None:
    alone, more = make_trainer(kb), make_trainer(kb, pair_loss=MentionPairLoss(8))
    assert sum(more.step(GOLD)) > sum(alone.step(GOLD))


def test_what_cannot_be_trained_so(kb: KnowledgeBase) -> None:
    documents = DocumentEncoder(ScratchEncoder(1, 32, 4, vocab_size=200, max_tokens=48))
    documents.initialize(X=TEXTS)
    with pytest.raises(PelError, match='set "coreference" to null, or train a spacy-pel.BiEncoder'):
        make_trainer(kb, linker=Retriever(documents))
    with pytest.raises(PelError, match="FGSM cannot perturb pairs of two mentions"):
        make_trainer(kb, fgsm=FGSM(per_pair=True))
    with pytest.raises(PelError, match='give a "loss", or set "coreference" to null'):
        make_trainer(kb, loss=None)
