import numpy as np
import pytest
from thinc.api import Adam

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.linking.link import link
from spacy_pel.models.adversarial import FGSM
from spacy_pel.models.architectures import (
    DocumentEncoder,
    Retriever,
    ScratchEncoder,
    encoder_of,
    entity_vectors,
)
from spacy_pel.models.losses import (
    CrossEntropyLoss,
    MentionPairLoss,
    PositiveNegativeLoss,
    ProxyLoss,
)
from spacy_pel.text.mention_inputs import GoldMention, MentionInContext
from spacy_pel.training.arborescence import Arborescence
from spacy_pel.training.mention_views import MaskAndReplace
from spacy_pel.training.negatives import MixedNegatives, in_batch_negatives, random_negatives
from spacy_pel.training.optimizer import apply_gradients
from spacy_pel.training.pool import GoldMentionIndex
from spacy_pel.training.retriever_trainer import RetrieverTrainer

from ..towers import MENTIONS, TEXTS, mention, retriever
from .kbs import CLUSTERED, GOLD, encoded_pool


def make_trainer(
    kb: KnowledgeBase,
    loss=ProxyLoss(),
    negatives=random_negatives(4),
    seed: int = 0,
    linker: Retriever | None = None,
    coreference: Arborescence | None = None,
    **more,
) -> RetrieverTrainer:
    linker = linker or retriever(shared=False)
    pool = encoded_pool(kb, linker, mentions=coreference and GoldMentionIndex(CLUSTERED, linker))
    rng = np.random.default_rng(seed)
    return RetrieverTrainer(linker, pool, loss, negatives, rng, coreference=coreference, **more)


def train(trainer: RetrieverTrainer, steps: int, optimizer=None) -> list[float]:
    optimizer = optimizer or Adam(0.002)
    losses = []
    for _ in range(steps):
        losses.append(trainer.step(CLUSTERED if trainer.coreference else GOLD))
        apply_gradients(trainer.model, optimizer)
        trainer.note_update()
    return losses


def best_entities(trainer: RetrieverTrainer) -> list[int]:
    return link(trainer.retriever, trainer.pool, MENTIONS, 1).numbers[:, 0].tolist()


@pytest.mark.parametrize(
    ("loss", "negatives", "more"),
    [
        (ProxyLoss(), random_negatives(4, in_batch=True), {"fgsm": FGSM()}),
        (CrossEntropyLoss(scale=32), random_negatives(4, shared=False), {}),
        (PositiveNegativeLoss(8), MixedNegatives(2, p=1, refresh=3),
         {"coreference": Arborescence("all", 2, 3)}),
    ],
)  # fmt: skip
def test_a_small_problem_is_learned_and_the_seed_decides(kb, loss, negatives, more) -> None:
    trainer = make_trainer(kb, loss, negatives, **more)
    assert best_entities(trainer) != [0, 1, 2, 3]
    losses = train(trainer, 40)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert best_entities(trainer) == [0, 1, 2, 3]
    assert train(make_trainer(kb, loss, negatives, **more), 2) == losses[:2]


def test_repeats_of_a_name_in_a_document_are_encoded_once(kb: KnowledgeBase) -> None:
    text = "Aspirin and aspirin and aspirin; MS and ms"
    places = [(0, 7), (12, 19), (24, 31), (33, 35), (40, 42)]
    contexts = [MentionInContext(text, *place) for place in places]
    repeats = [
        GoldMention(context, (number,)) for context, number in zip(contexts, (3, 3, 3, 0, 0))
    ]
    assert read_in_a_step(make_trainer(kb), repeats) == 2
    elsewhere = GoldMention(mention(TEXTS[3], "Aspirin"), (3,))
    other_gold = GoldMention(MentionInContext(text, 0, 7), (3, 4))
    trainer = make_trainer(kb)
    assert read_in_a_step(trainer, [*repeats, elsewhere, other_gold]) == 4
    drawn = {trainer.one_of_each(repeats)[0].context.start for _ in range(50)}
    assert drawn == {0, 12, 24}
    # A document is read once for all of them.
    assert read_in_a_step(make_trainer(kb, linker=documents()), repeats) == 5


def read_in_a_step(trainer: RetrieverTrainer, mentions: list[GoldMention]) -> int:
    """How many mentions are encoded."""
    counts, encode = [], trainer.retriever._func
    trainer.retriever._func = lambda model, read, is_train: (
        counts.append(len(read)) or encode(model, read, is_train)
    )
    trainer.step(mentions)
    return sum(counts)


def documents() -> Retriever:
    model = DocumentEncoder(ScratchEncoder(1, 32, 4, vocab_size=200, max_tokens=48), window=48)
    model.initialize(X=TEXTS)
    return model


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"coreference": Arborescence(), "linker": documents}, 'set "coreference" to null, or train'),
        ({"coreference": Arborescence(), "loss": None, "pair_loss": MentionPairLoss(),
          "linker": retriever}, 'to true and "coreference" to null'),
        ({"views": MaskAndReplace(), "linker": documents}, 'set "views" to null'),
        ({"loss": None, "pair_loss": MentionPairLoss()}, 'give a "loss"; or a "pair_loss", with'),
        ({"loss": None, "linker": retriever}, "neither the entity encoder nor gold clusters"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(kb: KnowledgeBase, given: dict, message: str) -> None:
    make = given.get("linker", lambda: None)
    with pytest.raises(PelError, match=message):
        make_trainer(kb, **{**given, "linker": make()})


def named(name: str, number: int) -> GoldMention:
    return GoldMention(MentionInContext(f"The {name} again.", 4, 4 + len(name)), (number,))


def test_shares_and_texts_of_views(kb: KnowledgeBase) -> None:
    mentions = [named("ms", 0)] * 2000 + [named("murmur of the heart", 4)]
    views = MaskAndReplace(0.2, 0.3)(mentions, kb, np.random.default_rng(0))
    assert views == MaskAndReplace(0.2, 0.3)(mentions, kb, np.random.default_rng(0))
    texts = [view.text for view in views[:-1]]
    masked = sum(view.is_masked for view in views[:-1])
    assert 340 < masked < 460 and 540 < sum("ms" not in text for text in texts) < 660
    assert {view.surface for view in views[:-1]} == {
        "ms", "Multiple sclerosis", "disease of the nerves",
    }  # fmt: skip
    assert views[-1].surface == "murmur of the heart"  # it has no other name
    assert all(view.text == f"The {view.surface} again." for view in views)
    with pytest.raises(PelError, match="sum of at most 1"):
        MaskAndReplace(0.6, 0.6)


def test_a_step_learns_from_views_and_pairs(kb: KnowledgeBase, monkeypatch) -> None:
    """The gradient of the mentions is the sum of those of both losses, by the views."""
    mentions = [named(name, n) for name, n in (("MS", 0), ("a MS", 0), ("spectrum", 1), ("MS", 1))]
    pair_loss, views = MentionPairLoss(8, 0.5), MaskAndReplace(0.5, 0.5)
    both = {"pair_loss": pair_loss, "views": views}
    trainer = make_trainer(kb, ProxyLoss(8), in_batch_negatives(), 3, **both)
    linker, encode, backpropagated = trainer.retriever, trainer.retriever._func, []

    def watched(model, mentions, is_train):
        vectors, backprop = encode(model, mentions, is_train)
        return vectors, lambda d: backpropagated.append((vectors, d)) or backprop(d)

    monkeypatch.setattr(linker, "_func", watched)
    rng = np.random.default_rng(3)
    rng.integers(1, size=4)  # one of each
    step = trainer.step(mentions)
    ((vectors, gradient),) = backpropagated
    monkeypatch.undo()
    as_they_are = linker.predict([m.context for m in mentions])
    assert not np.allclose(vectors, as_they_are, atol=1e-3)
    d_pairs, of_pairs = pair_loss(vectors, [m.golds for m in mentions])
    rows, targets = trainer.choose_rows(mentions, vectors)
    proxies = entity_vectors(linker, trainer.pool.texts(rows, trainer.rng))
    (d_proxies, _), of_proxies = ProxyLoss(8)((vectors, proxies), targets)
    np.testing.assert_allclose(gradient, d_pairs + d_proxies, atol=1e-5)
    assert step == pytest.approx(of_pairs + of_proxies, rel=1e-4)


def test_pairs_alone_train_one_encoder(kb: KnowledgeBase) -> None:
    linker, pair_loss = retriever(), MentionPairLoss(8)
    trainer = make_trainer(kb, None, in_batch_negatives(), linker=linker, pair_loss=pair_loss)
    vectors = linker.predict([m.context for m in CLUSTERED])
    _, expected = pair_loss(vectors, [m.golds for m in CLUSTERED])
    assert trainer.step(CLUSTERED) == pytest.approx(expected, rel=1e-4)
    assert any(w.grad is not None for w in encoder_of(linker.get_ref("mention")).parameters())
