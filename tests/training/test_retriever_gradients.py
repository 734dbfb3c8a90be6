import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from spacy_pel.kb import build_kb
from spacy_pel.models.adversarial import FGSM
from spacy_pel.models.architectures import Retriever, encoder_of
from spacy_pel.models.losses import CrossEntropyLoss, PositiveNegativeLoss, ProxyLoss, Targets
from spacy_pel.text.entity_texts import EntityText, proxy_texts
from spacy_pel.text.mention_inputs import GoldMention
from spacy_pel.training.arborescence import ENTITY, Arborescence
from spacy_pel.training.negatives import Batch, MixedNegatives, Row
from spacy_pel.training.pool import GoldMentionIndex, NegativePool, StoredRows
from spacy_pel.training.retriever_trainer import RetrieverTrainer

from ..models.test_losses import naive_cross_entropy, naive_positive_negative, naive_proxy_loss
from ..towers import ENTITIES, MENTIONS, bert_vector, retriever
from . import kbs
from .kbs import CLUSTERED, assert_same_gradients
from .test_arborescence import after_deletions

# The first proxy serves two mentions; each of the others is a negative, or nothing, to some.
NEGATIVES = [[0, 1, 1, 0, 1], [1, 0, 0, 1, 0], [1, 1, 0, 1, 1], [0, 0, 0, 0, 0]]
TARGETS = Targets(np.array([0, 1, 2, 0]), np.array(NEGATIVES, dtype=bool))
GOLD = [GoldMention(context, (i,)) for context, i in zip(MENTIONS, TARGETS.positive.tolist())]
ROWS = [Row(entity, 0) for entity in range(len(ENTITIES))]


class FixedPool:
    """A row for each of ENTITIES."""

    mined = None

    def positive_rows(self, mentions: Sequence[GoldMention], rng) -> list[Row]:
        assert len(mentions) == 4
        return [ROWS[mention.golds[0]] for mention in mentions]

    def texts(self, rows: Sequence[Row], rng) -> list[EntityText]:
        return [ENTITIES[row.entity] for row in rows]


def all_rows(batch: Batch, pool: FixedPool, rng) -> tuple[list[Row], Targets]:
    """A sampler that gives TARGETS."""
    assert batch.vectors.shape == (4, 32)
    assert batch.positives == [ROWS[column] for column in TARGETS.positive]
    return ROWS, TARGETS


def naive_step(linker: Retriever, naive, fgsm: FGSM | None) -> float:
    """Eq. 8, input by input with autograd alone; leaves its gradients on the weights."""
    mention_encoder = encoder_of(linker.get_ref("mention")).eval()
    entity_encoder = encoder_of(linker.get_ref("entity")).eval()
    tokens = linker.attrs["entity_reader"].tokens(ENTITIES)
    mentions = [
        bert_vector(mention_encoder, t)
        for t in linker.attrs["mention_reader"].inputs(MENTIONS).windows
    ]
    inputs = [torch.zeros(len(text.ids), 32, requires_grad=True) for text in tokens]

    def scores_of(added: list[Tensor]) -> dict:
        vectors = [bert_vector(entity_encoder, text, z) for text, z in zip(tokens, added)]
        return {(i, c): mentions[i] @ vectors[c] for i in range(4) for c in range(5)}

    def mean_loss(scores: dict) -> Tensor:
        losses = [
            naive(scores[i, p], [scores[i, c] for c in np.flatnonzero(TARGETS.negatives[i])])
            for i, p in enumerate(TARGETS.positive.tolist())
        ]
        return sum(losses) / len(losses)

    scores = scores_of(inputs)
    clean, adversarial = mean_loss(scores), torch.zeros(())
    if fgsm is not None:
        by_inputs = torch.autograd.grad(clean, inputs, retain_graph=True)
        added = [fgsm.epsilon * gradient.sign() for gradient in by_inputs]
        adversarial = fgsm.weight * mean_loss(scores_of(added))
    (clean + adversarial).backward()
    assert (adversarial > 0.3 * clean) == (fgsm is not None)
    return (clean + adversarial).item()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("fgsm", [None, FGSM(0.01, 0.3)])
@pytest.mark.parametrize(
    ("loss", "naive"),
    [(ProxyLoss(8), naive_proxy_loss(8, 0)), (CrossEntropyLoss(), naive_cross_entropy(1))],
)
def test_a_step_equals_pure_torch(shared, fgsm, loss, naive) -> None:
    ours, rng = retriever(shared=shared, layers=2), np.random.default_rng(0)
    reference = copy.deepcopy(ours)
    value = RetrieverTrainer(ours, FixedPool(), loss, all_rows, rng, fgsm=fgsm).step(GOLD)
    assert value == pytest.approx(naive_step(reference, naive, fgsm), rel=1e-4)
    assert_same_gradients(ours, reference)


def test_a_step_against_stored_proxies_trains_the_mentions_as_one_against_encoded_ones(tmp_path):
    ours = retriever(shared=False)
    other = copy.deepcopy(ours)
    kb = kbs.embedded_kb(tmp_path / "kb", ours)
    pools = NegativePool(kb, "name", 0.0, StoredRows(kb)), kbs.encoded_pool(kb, other)
    sampler = MixedNegatives(n=2, p=1)
    stored, encoded = (
        RetrieverTrainer(*both, ProxyLoss(8), sampler, np.random.default_rng(0)).step(kbs.GOLD)
        for both in zip((ours, other), pools)
    )
    assert stored == pytest.approx(encoded, rel=1e-5)
    assert all(weight.grad is None for weight in encoder_of(ours.get_ref("entity")).parameters())
    for weight in encoder_of(other.get_ref("entity")).parameters():
        weight.grad = None
    assert_same_gradients(ours, other)


BATCH = [CLUSTERED[place] for place in (0, 2, 5, 7, 9)]


def naive_step_of_edges(linker: Retriever, naive) -> float:
    """A step on BATCH with everything searched by brute force; leaves gradients on the weights."""
    mentions, entities = (encoder_of(linker.get_ref(side)).eval() for side in ("mention", "entity"))
    inputs = linker.attrs["mention_reader"].inputs([m.context for m in CLUSTERED]).windows
    of_mentions = [bert_vector(mentions, tokens) for tokens in inputs]
    texts = [proxy_texts(entity, "entity")[0] for entity in kbs.ENTITIES]
    of_entities = [
        bert_vector(entities, tokens) for tokens in linker.attrs["entity_reader"].tokens(texts)
    ]
    values, rows = (torch.stack(v).detach().numpy() for v in (of_mentions, of_entities))
    losses = []
    for number in map(CLUSTERED.index, BATCH):
        vector, (gold,) = of_mentions[number], CLUSTERED[number].golds
        cluster = [i for i, m in enumerate(CLUSTERED) if m.golds == (gold,)]
        source = after_deletions(values[cluster], rows[[gold]])[cluster.index(number)]
        positive = of_entities[gold] if source == ENTITY else of_mentions[cluster[source]]
        wrong = sorted(set(range(len(rows))) - {gold}, key=lambda e: -rows[e] @ values[number])
        others = [i for i in range(len(CLUSTERED)) if i not in cluster]
        others.sort(key=lambda i: -values[i] @ values[number])
        sources = [of_entities[e] for e in wrong[:2]] + [of_mentions[i] for i in others[:2]]
        losses.append(naive(vector @ positive, [vector @ other for other in sources]))
    loss = sum(losses) / len(losses)
    loss.backward()
    return loss.item()


@pytest.mark.parametrize(
    ("shared", "loss", "naive"),
    [
        (True, PositiveNegativeLoss(8), naive_positive_negative(8)),
        (False, ProxyLoss(8), naive_proxy_loss(8, 0)),
    ],
)
def test_a_step_on_edges_equals_pure_torch(shared: bool, loss, naive, tmp_path: Path) -> None:
    ours = retriever(shared=shared, layers=2)
    reference = copy.deepcopy(ours)
    kb = build_kb(kbs.ENTITIES, tmp_path / "kb")
    pool = kbs.encoded_pool(kb, ours, "entity", mentions=GoldMentionIndex(CLUSTERED, ours))
    sampler, edges = MixedNegatives(2, p=1, refresh=3), Arborescence(negatives=2, refresh=3)
    rng = np.random.default_rng(0)
    value = RetrieverTrainer(ours, pool, loss, sampler, rng, coreference=edges).step(BATCH)
    assert value == pytest.approx(naive_step_of_edges(reference, naive), rel=1e-4)
    assert_same_gradients(ours, reference)
