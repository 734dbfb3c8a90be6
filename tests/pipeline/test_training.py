from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.training import Example
from thinc.api import Adam, fix_random_seed

from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.models.architectures import encoder_of

from ..training import problem
from ..training.problem import same
from .conftest import (
    CONFIG,
    PROBLEM,
    TRAIN,
    Trained,
    brute_force,
    examples,
    mentions_of,
    train,
    untrained,
    with_mentions,
)


@pytest.fixture
def nlp(kb: Path) -> Language:
    return untrained(kb)


@pytest.fixture
def linker(nlp: Language):
    return nlp.get_pipe("proxy_linker")


def weights(linker) -> dict[str, np.ndarray]:
    return problem.weights(linker.model.get_ref("mention"))


def gradients(linker) -> dict[str, np.ndarray]:
    encoder = encoder_of(linker.model.get_ref("mention"))
    return {name: w.grad.numpy() for name, w in encoder.named_parameters() if w.grad is not None}


def searched(nlp: Language) -> set[str]:
    """The entities that a training session searches."""
    linker = nlp.get_pipe("proxy_linker")
    linker.search.candidates = len(PROBLEM)
    (doc,) = nlp.pipe(mentions_of(nlp, TRAIN[1:2]))
    return {candidate["id"] for candidate in doc.ents[0]._.kb_candidates}


def test_losses_and_without_sgd_gradients_add_up(nlp: Language, linker) -> None:
    before, losses = weights(linker), {"other": 1.0}
    assert linker.update(examples(nlp), sgd=None, losses=losses) is losses
    assert losses["other"] == 1.0 and losses["proxy_linker"] > 0
    once = {name: g.copy() for name, g in gradients(linker).items()}
    linker.update(examples(nlp), sgd=None)
    assert same(weights(linker), before)
    assert all(np.abs(g).max() > 0 for g in once.values()) and len(once) > 10
    assert not same(gradients(linker), once)
    linker.finish_update(Adam(0.005))
    assert not same(weights(linker), before)
    assert not any(np.abs(g).any() for g in gradients(linker).values())


def test_a_batch_that_teaches_nothing(nlp: Language, linker) -> None:
    before = weights(linker)
    none = [("Here is MS.", {"MS": "NIL"}), ("And MS again.", {"MS": ""}), ("", {})]
    for texts in ([], none, [("The gold is elsewhere: MS.", {"MS": "XYZ|ZYX"})]):
        assert linker.update(examples(nlp, texts), sgd=Adam(0.1)) == {"proxy_linker": 0.0}
    assert same(weights(linker), before)


def test_dropout_reaches_torch(kb: Path) -> None:
    def losses(drop: float) -> list[float]:
        nlp = untrained(kb)
        linker = nlp.get_pipe("proxy_linker")
        return [linker.update(examples(nlp), drop=drop)["proxy_linker"] for _ in range(2)]

    assert losses(0.0) == losses(0.0)
    assert losses(0.5) != losses(0.0)


def test_gold_mentions_teach_wherever_they_are(kb: Path) -> None:
    """In ents, in a group, and where the pipeline finds others."""
    losses = []
    for spans_key, annotates in ((None, []), ("sc", []), (None, ["entity_ruler"])):
        fix_random_seed(0)
        nlp = spacy.blank("en")
        ruler = nlp.add_pipe("entity_ruler")
        nlp.add_pipe("proxy_linker", config={**CONFIG, "kb": str(kb), "spans_key": spans_key})
        nlp.initialize(lambda nlp=nlp, key=spans_key: examples(nlp, spans_key=key))
        ruler.add_patterns([{"label": "TERM", "pattern": "patient"}])
        references = [example.reference for example in examples(nlp, spans_key=spans_key)]
        blank = [Example(nlp.make_doc(doc.text), doc) for doc in references]
        losses.append(nlp.update(blank, sgd=None, annotates=annotates)["proxy_linker"])
    assert losses[0] == losses[1] == losses[2] > 0


def test_a_session_searches_the_proxies_as_they_are_and_then_the_kb(tmp_path: Path) -> None:
    kb = build_kb(PROBLEM, tmp_path / "kb").path
    nlp = untrained(kb)
    linker = nlp.get_pipe("proxy_linker")
    text, mentions = TRAIN[4]
    said = []
    for _ in range(2):
        (doc,) = nlp.pipe([with_mentions(nlp, text, mentions)])
        scores = brute_force(linker, text, *mentions)
        for candidate in doc.ents[0]._.kb_candidates:
            assert candidate["score"] == pytest.approx(scores[candidate["id"]], abs=1e-5)
        said.append(doc.ents[0]._.kb_score)
        train(nlp, 2)
    assert said[0] != said[1]
    linker.finish_training()
    with pytest.raises(PelError, match="has no vectors; run: python -m spacy pel kb embed"):
        searched(nlp)


def test_training_goes_on_from_a_saved_pipeline(trained: Trained) -> None:
    nlp = spacy.load(trained.path)
    linker = nlp.get_pipe("proxy_linker")
    optimizer = nlp.resume_training()
    before = weights(linker)
    bias = linker.cfg["loss"]["bias"]  # of the first batch that it learnt from, 0 in no encoder
    assert bias and bias == trained.nlp.get_pipe("proxy_linker").cfg["loss"]["bias"]
    losses = [nlp.update(examples(nlp), sgd=optimizer)["proxy_linker"] for _ in range(3)]
    assert not same(weights(linker), before)
    assert max(losses) < 5  # where it began, at first, the loss was ten times that
    assert linker.training.loss.bias == linker.cfg["loss"]["bias"] == bias
    assert searched(nlp) == {entity.concept_id for entity in PROBLEM}


def test_a_corpus_of_other_identifiers_is_an_error(kb: Path) -> None:
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker", config={**CONFIG, "kb": str(kb)})
    for texts in ([("It is MS.", {"MS": "XYZ"})], [("It is MS.", {"MS": "NIL"})], []):
        with pytest.raises(PelError, match=f"has an entity in {kb}; check that the corpus"):
            linker.initialize(lambda: examples(nlp, texts), nlp=nlp)


def test_hard_negatives_are_mined_among_entities_that_dev_has_no_say_in(kb: Path) -> None:
    def pool_of(dev: list, **sizes: int | None):
        fix_random_seed(0)
        nlp = spacy.blank("en")
        linker = nlp.add_pipe("proxy_linker", config={**CONFIG, "kb": str(kb)})
        linker.initialize(
            lambda: examples(nlp, TRAIN[:1]),
            nlp=nlp,
            searched_corpus=lambda nlp: examples(nlp, dev),
            **sizes,
        )
        assert linker.cfg["trained_entities"] == ["C01", "C05"]
        return linker.trainer.pool

    everything = set(range(len(PROBLEM)))
    trained = {number for number in everything if PROBLEM[number].concept_id in ("C01", "C05")}
    blank = pool_of([], mined_entities=8, searched_entities=8)
    mined = blank.mined.numbers.tolist()
    assert set(mined) == set(blank.searched.numbers) > trained and len(mined) == 8
    unmined = sorted(everything - set(mined))[:3]
    dev = [("A text", {"text": PROBLEM[number].concept_id}) for number in unmined]
    for searched_entities, count in ((8, 8), (2, 5), (None, len(PROBLEM))):
        pool = pool_of(dev, mined_entities=8, searched_entities=searched_entities)
        assert pool.mined.numbers.tolist() == mined
        assert set(pool.searched.numbers) >= trained | set(unmined)
        assert len(pool.searched.numbers) == count
    assert set(pool_of(dev, mined_entities=1, searched_entities=2).mined.numbers) == trained
    assert set(pool_of(dev).mined.numbers) == everything  # 20,000 by default


def test_without_examples_the_encoder_is_made_and_nothing_is_trained(tiny_kb: Path) -> None:
    nlp = spacy.blank("xx")
    linker = nlp.add_pipe("proxy_linker", config={**CONFIG, "kb": str(tiny_kb)})
    nlp.initialize()
    assert linker.trainer is None and linker.retriever.get_dim("nO") == 32


EDGES = {
    **CONFIG,
    "regularizer": None,
    "loss": {"@losses": "spacy-pel.PositiveNegativeLoss.v1", "scale": 16},
    "coreference": {"@misc": "spacy-pel.Arborescence.v1", "negatives": 3, "refresh": 5},
    "negatives": {"@misc": "spacy-pel.MixedNegatives.v1", "n": 4, "p": 1.0, "refresh": 5},
}


def test_a_mention_is_known_whatever_other_mentions_its_batch_has(kb: Path) -> None:
    """An acronym is read in full where it is a mention of the batch, and there alone."""
    text = "Multiple sclerosis (MS) was found; in MS of the brain the kidney is well."
    texts = [(text, {"MS": "C01", "kidney": "C07"}), *TRAIN]
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={**EDGES, "kb": str(kb)})
    nlp.initialize(lambda: examples(nlp, texts))
    for mention, id in texts[0][1].items():
        assert nlp.update(examples(nlp, [(text, {mention: id})]), sgd=None)["proxy_linker"] > 0


def test_a_mention_that_initialize_did_not_see_is_an_error(kb: Path, tmp_path: Path) -> None:
    nlp = untrained(kb, EDGES)
    other = examples(nlp, [("Another kidney.", {"kidney": "C07"})])
    with pytest.raises(PelError, match='"kidney" is none of the .* max_epochs = 0 or more'):
        nlp.update(other)
    nlp.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)  # where none is known
    with pytest.raises(PelError, match="gold clusters .* spacy-pel.TrainedEncoder.v1 in place"):
        nlp.update(examples(nlp))
