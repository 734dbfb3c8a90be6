import copy
import logging

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.linking.reranker import Reranker
from spacy_pel.models.adversarial import FGSM
from spacy_pel.models.architectures import encoder_of
from spacy_pel.text.entity_texts import proxy_texts
from spacy_pel.text.mention_inputs import GoldMention, MarkedTextReader
from spacy_pel.training import reranker_trainer as trainers
from spacy_pel.training.reranker_trainer import RerankerTrainer, with_gold

from ..towers import MENTIONS, pair_score, reranker
from . import kbs
from .kbs import ENTITIES, assert_same_gradients

GOLD = [*kbs.GOLD]
GOLD[1] = GoldMention(MENTIONS[1], (1, 4))
# What the retriever finds for each; the last mention's gold is not among it, the third's is alone.
FOUND = np.array([[1, 0, 2], [4, 1, 3], [2, -1, -1], [4, 0, 1]])
SCORES = np.where(FOUND < 0, -np.inf, [[0.9, 0.6, 0.2]]).astype(np.float32)
# (candidates, column of the positive, columns of the negatives) of each mention in training.
TRAINED = [([1, 0, 2], 1, [0, 2]), ([4, 1, 3], 0, [2]), ([2], 0, []), ([4, 0, 3], 2, [0, 1])]


class FixedSearch:
    """A KB whose search finds FOUND, and a retriever whose vectors are the mentions' places."""

    attrs = {"mention_reader": MarkedTextReader}

    def __init__(self, kb: KnowledgeBase) -> None:
        self.entities = kb.entities
        self.searched: list[int] = []

    def predict(self, mentions) -> np.ndarray:
        places = [[MENTIONS.index(m._replace(is_masked=False))] for m in mentions]
        return np.array(places, dtype=np.float32)

    def search(self, vectors: np.ndarray, k: int) -> Candidates:
        self.searched.append(len(vectors))
        places = vectors[:, 0].astype(int)
        return Candidates(FOUND[places][:, :k], SCORES[places][:, :k])


def trainer(kb: KnowledgeBase, fgsm: FGSM | None = None, seed: int = 0, views=None, **changes):
    fixed = FixedSearch(kb)
    rng = np.random.default_rng(seed)
    return RerankerTrainer(reranker(**changes), fixed, fixed, 3, fgsm, rng, views)


def naive_step(ranker: Reranker, fgsm: FGSM | None) -> float:
    """Eq. 1 and 8 over pairs, one by one with autograd alone; leaves gradients on the weights."""
    module = encoder_of(ranker.model).eval()
    reader = ranker.reader
    texts = reader.entities([proxy_texts(entity, "entity")[0] for entity in ENTITIES])
    pairs = [
        [reader.pair(side, texts[number]) for number in candidates]
        for side, (candidates, *_) in zip(reader.mentions(MENTIONS), TRAINED)
    ]
    zeros = [[torch.zeros(len(p.ids), 32, requires_grad=True) for p in row] for row in pairs]
    clean = naive_loss(module, pairs, zeros, ranker.retriever_weight)
    adversarial = torch.zeros(())
    if fgsm is not None:
        leaves = [z for row in zeros for z in row]
        # A second gold candidate is in no loss, and has no gradient.
        found = torch.autograd.grad(clean, leaves, retain_graph=True, allow_unused=True)
        by_inputs = iter(torch.zeros_like(z) if g is None else g for z, g in zip(leaves, found))
        added = [[fgsm.epsilon * next(by_inputs).sign() for _ in row] for row in zeros]
        adversarial = fgsm.weight * naive_loss(module, pairs, added, ranker.retriever_weight)
    (clean + adversarial).backward()
    assert (adversarial > 0.3 * clean) == (fgsm is not None)
    return (clean + adversarial).item()


def naive_loss(module, pairs, added, retriever_weight: float) -> Tensor:
    losses = []
    for row, perturbations, (_, positive, negatives) in zip(pairs, added, TRAINED):
        scores = [
            pair_score(module, p, a) + retriever_weight * cosine
            for p, a, cosine in zip(row, perturbations, (0.9, 0.6, 0.2))
        ]
        total = sum(torch.exp(scores[column]) for column in [positive, *negatives])
        losses.append(-torch.log(torch.exp(scores[positive]) / total))
    return sum(losses) / len(losses)


@pytest.mark.parametrize(
    ("fgsm", "retriever_weight", "held_tokens"),
    [(None, 0.0, 8192), (None, 5.0, 8192), (FGSM(0.01, 0.3), 5.0, 100), (FGSM(0.01), 0.0, 1)],
)
def test_a_step_equals_pure_torch(kb, fgsm, retriever_weight, held_tokens, monkeypatch) -> None:
    monkeypatch.setattr(trainers, "BATCH_TOKENS", held_tokens)
    ours = trainer(kb, fgsm, layers=2, retriever_weight=retriever_weight)
    reference = Reranker(copy.deepcopy(ours.reranker.model))
    value = ours.step(GOLD)
    assert value == pytest.approx(naive_step(reference, fgsm), rel=1e-4)
    assert_same_gradients(ours.model, reference.model)


def test_what_the_retriever_is_sure_of_is_not_trained_on(kb) -> None:
    """The third mention has one candidate; the others' best ones are far from sure."""
    ours = trainer(kb, retriever_weight=1.0, sure=0.9)
    value = ours.step(GOLD)
    assert value > 0
    others = trainer(kb, retriever_weight=1.0)
    assert others.step([GOLD[0], GOLD[1], GOLD[3]]) == pytest.approx(value)
    assert_same_gradients(ours.model, others.model)
    assert ours.step(GOLD[2:3]) == 0.0


def test_candidates_are_searched_once(kb, caplog) -> None:
    ours = trainer(kb)
    with caplog.at_level(logging.INFO):
        ours.retrieve(GOLD)
    assert "75.0 % of the mentions have their gold entity among their 3 candidates" in caplog.text
    assert ours.kb.searched == [4]
    for _ in range(3):
        ours.step(GOLD)
    assert ours.kb.searched == [4]
    other = trainer(kb)
    other.step(GOLD[:1])  # not seen before: searched when it comes
    other.step(GOLD[:3])
    assert other.kb.searched == [1, 2]


def test_views_are_read_by_the_retriever_and_by_the_reranker(kb) -> None:
    """The candidates are those of the view; the right entity is that of the mention."""

    def views(mentions, kb, rng):
        return [MENTIONS[(MENTIONS.index(m.context) + 1) % len(MENTIONS)] for m in mentions]

    viewed, plain = trainer(kb, views=views), trainer(kb)
    read = [m._replace(context=c) for m, c in zip(GOLD, views(GOLD, kb, None))]
    assert viewed.step(GOLD) == plain.step(read) != trainer(kb).step(GOLD)
    assert_same_gradients(viewed.model, plain.model)


def test_where_there_is_nothing_to_learn_it_says_so(kb) -> None:
    sure = trainer(kb, retriever_weight=1.0, sure=0.3)
    with pytest.raises(PelError, match='sure of all 4 training mentions.*raise "sure" .* is 0.3'):
        sure.retrieve(GOLD)
    with pytest.raises(PelError, match="none of 1 training mentions has its gold .*; train the"):
        trainer(kb).retrieve(GOLD[3:])


FOUND_IDS = st.lists(st.integers(0, 9), max_size=4, unique=True)
GOLD_IDS = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)


@given(st.lists(st.tuples(FOUND_IDS, GOLD_IDS), min_size=1))
def test_gold_is_among_the_candidates_in_training(rows) -> None:
    numbers = np.array([found + [-1] * (4 - len(found)) for found, _ in rows])
    scores = np.where(numbers < 0, -np.inf, [9, 7, 5, 3]).astype(np.float32)
    kept = numbers.copy()
    trained, trained_scores, targets = with_gold(numbers, scores, [tuple(g) for _, g in rows])
    assert np.array_equal(numbers, kept)  # those kept for the next epoch
    assert trained_scores.dtype == np.float32
    for i, (found, golds) in enumerate(rows):
        hits = [number for number in found if number in golds]
        expected = found if hits else [*found[:3], golds[0]]
        assert trained[i].tolist() == expected + [-1] * (4 - len(expected))
        assert trained[i, targets.positive[i]] == (hits or golds)[0]
        negatives = trained[i][targets.negatives[i]].tolist()
        assert negatives == [number for number in expected if number not in golds]
        if not hits:  # it scores as the last that was found
            assert trained_scores[i, len(expected) - 1] == [0, 9, 7, 5, 3][len(found)]
        expected_scores = [9, 7, 5, 3][: len(found)] + [0] * (4 - len(found))
        assert (trained_scores[i] == expected_scores).sum() >= 3
