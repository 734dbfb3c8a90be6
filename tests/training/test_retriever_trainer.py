from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from thinc.api import Adam

from spacy_pel.architectures import encoder_of
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.link import link
from spacy_pel.models.adversarial import FGSM
from spacy_pel.models.losses import CrossEntropyLoss, ProxyLoss
from spacy_pel.reading.gold_mention import GoldMention
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.training.negatives import InBatchNegatives, MixedNegatives, RandomNegatives
from spacy_pel.training.proxy_pool import ProxyPool
from spacy_pel.training.retriever_trainer import RetrieverTrainer

from ..towers import MENTIONS, TEXTS, mention, retriever

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS",), ("Disease",)),
    Entity("C1", "Mass spectrometry", ("MS",), ("Procedure",)),
    Entity("C2", "Mitral stenosis", (), ("Disease",)),
    Entity("C3", "Aspirin"),
    Entity("C4", "murmur of the heart"),
]
GOLD = [GoldMention(context, (number,)) for number, context in enumerate(MENTIONS)]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path_factory.mktemp("trainer") / "kb")


def make_trainer(
    kb: KnowledgeBase, loss=ProxyLoss(), fgsm=None, negatives=RandomNegatives(4), seed=0, **changes
) -> RetrieverTrainer:
    linker = retriever(**changes)
    pool = ProxyPool(kb, linker, "name", *[np.arange(len(kb))] * 2, 0.0)
    return RetrieverTrainer(linker, pool, loss, fgsm, negatives, np.random.default_rng(seed))


def train(trainer: RetrieverTrainer, steps: int) -> list[float]:
    optimizer = Adam(0.002)
    losses = []
    for _ in range(steps):
        losses.append(sum(trainer.step(GOLD)))
        trainer.retriever.model.finish_update(optimizer)
        trainer.pool.note_update()
    return losses


def best_entities(trainer: RetrieverTrainer) -> list[int]:
    return link(trainer.retriever, trainer.pool, MENTIONS, 1).numbers[:, 0].tolist()


@pytest.mark.parametrize(
    ("loss", "fgsm", "negatives", "similarity"),
    [
        (ProxyLoss(), FGSM(), RandomNegatives(4, in_batch=True), "cosine"),
        (ProxyLoss(), None, MixedNegatives(4, p=0.5, refresh=5), "cosine"),
        (ProxyLoss(), FGSM(per_pair=True), RandomNegatives(4, shared=False), "cosine"),
        (CrossEntropyLoss(scale=32), None, RandomNegatives(4, in_batch=True), "cosine"),
        (CrossEntropyLoss(), FGSM(), InBatchNegatives(), "dot"),
    ],
)
def test_a_small_problem_is_learned(kb, loss, fgsm, negatives, similarity) -> None:
    trainer = make_trainer(kb, loss, fgsm, negatives, similarity=similarity)
    assert best_entities(trainer) != [0, 1, 2, 3]
    losses = train(trainer, 40)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert best_entities(trainer) == [0, 1, 2, 3]


def test_the_seed_decides(kb: KnowledgeBase) -> None:
    assert train(make_trainer(kb, seed=3), 3) == train(make_trainer(kb, seed=3), 3)
    assert train(make_trainer(kb, seed=3), 3) != train(make_trainer(kb, seed=4), 3)


def test_a_loss_that_is_no_number_is_an_error(kb: KnowledgeBase) -> None:
    trainer = make_trainer(kb)
    with torch.no_grad():
        encoder_of(trainer.retriever.entity_tower).transformer.embeddings.LayerNorm.bias[0] = (
            torch.nan
        )
    with pytest.raises(PelError, match='loss is nan for a batch that begins with "MS"; lower the'):
        trainer.step(GOLD)


def encoded_mentions(trainer: RetrieverTrainer, golds: list[GoldMention]) -> int:
    counts: list[int] = []
    handle = encoder_of(trainer.retriever.mention_tower).register_forward_hook(
        lambda module, inputs, output: counts.append(len(output))
    )
    trainer.step(golds)
    handle.remove()
    return sum(counts)


def test_repeats_of_a_name_in_a_document_are_encoded_once(kb: KnowledgeBase) -> None:
    text = "Aspirin and aspirin and aspirin; MS and ms"
    places = [(0, 7), (12, 19), (24, 31), (33, 35), (40, 42)]
    repeats = [
        GoldMention(MentionInContext(text, a, b), (3,) if b < 32 else (0,)) for a, b in places
    ]
    trainer = make_trainer(kb, shared=False)
    assert encoded_mentions(trainer, repeats) == 2
    elsewhere = GoldMention(mention(TEXTS[3], "Aspirin"), (3,))
    other_gold = GoldMention(MentionInContext(text, 0, 7), (3, 4))
    assert encoded_mentions(trainer, [*repeats, elsewhere, other_gold]) == 4
    drawn = {trainer._one_of_each(repeats)[0].context.start for _ in range(50)}
    assert drawn == {0, 12, 24}


@pytest.mark.parametrize(
    ("fgsm", "negatives"),
    [
        (None, RandomNegatives(3)),
        (FGSM(), MixedNegatives(2, p=0.5, refresh=1)),
        (FGSM(per_pair=True), MixedNegatives(2, p=0.5, refresh=1, shared=False)),
    ],
)
def test_counts_are_what_went_through_the_encoders(kb, fgsm, negatives) -> None:
    trainer = make_trainer(kb, fgsm=fgsm, negatives=negatives, shared=False)
    encoded = {"mention": 0, "entity": 0}
    for name in encoded:

        def count(module, inputs, output, name=name) -> None:
            encoded[name] += len(output)

        encoder_of(trainer.retriever.model.get_ref(name)).register_forward_hook(count)
    for _ in range(2):
        trainer.step([*GOLD, GOLD[0]])
        trainer.note_update()
    assert trainer.pool.search(np.ones((1, 32), dtype=np.float32), 1) is not None
    counts = trainer.counts
    assert (counts.mentions, counts.mention_inputs, counts.pair_inputs) == (10, 8, 0)
    assert counts.mention_inputs == encoded["mention"]
    assert counts.entity_inputs + counts.index_inputs == encoded["entity"]
    indexes = 3 if fgsm else 1  # of seven rows: two for mining, and that of the search
    assert counts.index_inputs == 7 * indexes and counts.entity_inputs > 0


def test_a_trainer_goes_on_from_a_state(kb: KnowledgeBase) -> None:
    def draws(trainer: RetrieverTrainer) -> list[float]:
        return [*trainer.step(GOLD), *trainer.step(GOLD), trainer.rng.random()]

    begun, resumed = (
        make_trainer(kb, negatives=MixedNegatives(4, refresh=9), seed=seed) for seed in (1, 2)
    )
    draws(begun)
    state = json.loads(json.dumps(begun.state()))
    resumed.restore(state)
    assert resumed.counts == begun.counts and resumed.counts.index_inputs > 0
    assert draws(resumed) == draws(begun)
    assert resumed.state() == begun.state()
    for trainer in (begun, resumed):  # and the rows of later indexes are added to those before
        trainer.note_update()
        best_entities(trainer)
    assert resumed.counts == begun.counts and resumed.counts.index_inputs == 14
