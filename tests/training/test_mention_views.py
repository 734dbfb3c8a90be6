"""Mentions that are masked, or replaced by synonyms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from spacy_pel.architectures import encoder_of
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.models.losses import ProxyLoss
from spacy_pel.models.pair_loss import MentionPairLoss
from spacy_pel.reading.gold_mention import GoldMention
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.reading.word_pieces import WordPieces, train_tokenizer
from spacy_pel.training.mention_views import MaskAndReplace
from spacy_pel.training.negatives import InBatchNegatives
from spacy_pel.training.retriever_trainer import RetrieverTrainer
from spacy_pel.training.row_pool import RowPool

from ..towers import TEXTS, retriever

HEADACHE, KIDNEY = 5, 6


def mention(name: str, number: int) -> GoldMention:
    context = MentionInContext(f"The {name} again.", 4, 4 + len(name))
    return GoldMention(context, (number,))


def test_shares_and_texts(bare_kb: KnowledgeBase) -> None:
    mentions = [mention("Head-Pain", HEADACHE)] * 2000 + [mention("kidney", KIDNEY)]
    views = MaskAndReplace(0.2, 0.3)(mentions, bare_kb, np.random.default_rng(0))
    found = Counter("masked" if view.is_masked else view.surface for view in views[:-1])
    assert found.keys() == {"masked", "Head-Pain", "headache", "cephalgia"}
    assert 0.17 < found["masked"] / 2000 < 0.23
    assert 0.26 < (found["headache"] + found["cephalgia"]) / 2000 < 0.34
    assert {view.text for view in views if view.surface == "cephalgia"} == {"The cephalgia again."}
    again = MaskAndReplace(0.2, 0.3)(mentions, bare_kb, np.random.default_rng(0))
    assert views == again


def test_an_entity_of_one_name_has_nothing_to_replace_it(bare_kb: KnowledgeBase) -> None:
    kidney = mention("Kidney", KIDNEY)
    (view,) = MaskAndReplace(0, 1)([kidney], bare_kb, np.random.default_rng(0))
    assert view == kidney.context


def test_a_masked_mention_is_read_as_a_mask() -> None:
    linker = retriever()
    seen = MentionInContext("The head pain again.", 4, 13)
    plain, masked = linker.mention_inputs([seen, seen._replace(is_masked=True)]).tokens
    first, last = plain.start, plain.end
    assert last - first > 1 and masked.end - masked.start == 1
    assert masked.ids[masked.start] not in plain.ids[first:last]
    rest = [*plain.ids[:first], *plain.ids[last:]]
    assert [*masked.ids[:first], *masked.ids[first + 1 :]] == rest


def test_the_mask_of_an_encoder_that_has_one() -> None:
    tokenizer = train_tokenizer(TEXTS, 200)
    unknown = WordPieces(tokenizer).mask
    tokenizer.add_special_tokens(["[MASK]"])
    assert WordPieces(tokenizer).mask == tokenizer.token_to_id("[MASK]") != unknown


@pytest.mark.parametrize("shares", [(-0.1, 0.2), (0.6, 0.6)])
def test_impossible_shares(shares: tuple[float, float]) -> None:
    with pytest.raises(PelError, match="a sum of at most 1"):
        MaskAndReplace(*shares)


class TitlePool(RowPool):
    """The canonical names of a KB."""

    def texts(self, rows, rng):
        from spacy_pel.reading.proxies import proxy_texts

        entities = self.kb.entities([row.entity for row in rows])
        return [proxy_texts(entity, "title")[0] for entity in entities]

    def note_update(self) -> None:
        """There is no index."""


@pytest.mark.parametrize("shared", [True, False])
def test_pairs_alone_need_one_encoder(bare_kb: KnowledgeBase, shared: bool) -> None:
    """Without a loss over proxies the gradient is that of the pairs, and no proxy is encoded."""
    mentions = [mention("headache", 5), mention("head pain", 5), mention("kidney", 6)]
    pair_loss, linker = MentionPairLoss(8), retriever(shared=shared)
    pool, rng = TitlePool(bare_kb, "title", 0.0), np.random.default_rng(0)
    given = linker, pool, None, None, InBatchNegatives(), rng
    if not shared:
        with pytest.raises(PelError, match='give a "loss"; or a "pair_loss", with "shared"'):
            RetrieverTrainer(*given, pair_loss=pair_loss)
        return
    with pytest.raises(PelError, match="nothing trains the encoder of entities"):
        RetrieverTrainer(*given)
    trainer = RetrieverTrainer(*given, pair_loss=pair_loss)
    vectors = linker.mention_vectors([m.context for m in mentions])
    _, expected = pair_loss(vectors, [m.golds for m in mentions])
    assert trainer.step(mentions).clean == pytest.approx(expected, rel=1e-4)
    assert trainer._counts.entity_inputs == 0
    assert any(w.grad is not None for w in encoder_of(linker.mention_tower).parameters())


def test_a_step_learns_from_views_and_pairs(
    bare_kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of the mentions is the sum of those of both losses, by the views."""
    mentions = [
        mention(name, number)
        for name, number in (("headache", 5), ("head pain", 5), ("kidney", 6), ("a kidney", 6))
    ]
    pair_loss, views = MentionPairLoss(8, 0.5), MaskAndReplace(0.5, 0.5)
    linker = retriever()
    trainer = RetrieverTrainer(
        linker,
        TitlePool(bare_kb, "title", 0.0),
        ProxyLoss(8),
        None,
        InBatchNegatives(),
        np.random.default_rng(3),
        pair_loss=pair_loss,
        views=views,
    )
    encode_mentions, backpropagated = trainer.encode_mentions, []

    def watched(mentions: Sequence[GoldMention]):
        vectors, backprop = encode_mentions(mentions)
        return vectors, lambda d: backpropagated.append((vectors, d)) or backprop(d)

    monkeypatch.setattr(trainer, "encode_mentions", watched)
    contexts = views(mentions, bare_kb, np.random.default_rng(3))
    expected = linker.mention_vectors(contexts)
    step = trainer.step(mentions)
    ((vectors, gradient),) = backpropagated
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    d_pairs, of_pairs = pair_loss(vectors, [m.golds for m in mentions])
    rows, targets = trainer.choose_rows(mentions, vectors)
    proxies = linker.entity_vectors(trainer.pool.texts(rows, trainer.rng))
    (d_proxies, _), of_proxies = ProxyLoss(8)((vectors, proxies), targets)
    np.testing.assert_allclose(gradient, d_pairs + d_proxies, atol=1e-5)
    assert step.clean == pytest.approx(of_pairs + of_proxies, rel=1e-4)
