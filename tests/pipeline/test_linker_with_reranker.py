"""A linker with a reranker: trained on a retriever that stands still, used, saved and loaded."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import srsly
from safetensors import safe_open
from spacy.language import Language
from spacy.tokens import DocBin
from thinc.api import Adam, fix_random_seed

from spacy_pel.architectures import encoder_of
from spacy_pel.errors import PelError
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import build_kb
from spacy_pel.linking.calibration import Calibration

from ..conftest import ENTITIES
from ..training.problem import same, train_by_spacy, weights, write_config
from .conftest import CONFIG, PROBLEM, TRAIN, Trained, examples, mentions_of, results
from .test_serialization import link_elsewhere

RERANK = 4
RERANKER = {
    "@architectures": "spacy-pel.CrossEncoder.v1",
    "length": 48,
    "encoder": {
        "@misc": "spacy-pel.ScratchEncoder.v1",
        **{"layers": 1, "width": 32, "heads": 2, "vocab_size": 400, "max_tokens": 64},
    },
}
# Prints what of the reranker a pipeline without one has imported when it has linked.
OF_THE_RERANKER = """
import json, sys
import spacy
from spacy.tokens import DocBin
nlp = spacy.load(sys.argv[1])
docs = list(nlp.pipe(DocBin().from_disk(sys.argv[2]).get_docs(nlp.vocab)))
parts = ("spacy_pel.linking.reranker", "crossencoder", "reranker_trainer")
loaded = [name for name in sys.modules if any(part in name for part in parts)]
print(json.dumps([*loaded, "linked" if docs[0].ents[0].kb_id_ else "not linked"]))
"""


def with_reranker(trained: Trained, **changes: Any) -> Language:
    """A pipeline of the trained retriever and a reranker that is not trained."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    encoder = {"@misc": "spacy-pel.TrainedEncoder.v1", "path": str(trained.path)}
    config = {
        "path": str(trained.path),
        "candidates": 5,
        "rerank": RERANK,
        "reranker": {**RERANKER, "encoder": encoder},
        "regularizer": None,
    }
    nlp.add_pipe("proxy_linker", config={**config, **changes})
    return nlp


def train(nlp: Language, steps: int) -> list[float]:
    optimizer = Adam(0.01)
    return [nlp.update(examples(nlp), sgd=optimizer)["proxy_linker"] for _ in range(steps)]


@pytest.fixture(scope="module")
def reranked(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The retriever of ``trained`` with a reranker of TRAIN. For reading alone."""
    nlp = with_reranker(trained)
    nlp.initialize(lambda: examples(nlp))
    train(nlp, 100)  # enough for any seed
    nlp.get_pipe("proxy_linker").finish_training()
    path = tmp_path_factory.mktemp("reranked") / "pipeline"
    nlp.to_disk(path)
    return Trained(nlp, path, trained.kb)


@pytest.fixture(scope="module")
def expected(reranked: Trained) -> list[list[Any]]:
    return linked(reranked.nlp)


def linked(nlp: Language) -> list[list[Any]]:
    return results(nlp.pipe(mentions_of(nlp, TRAIN), batch_size=7))


# In use


def test_it_learns(trained: Trained, expected) -> None:
    golds = [id for _, mentions in TRAIN for id in mentions.values()]
    right = [id == gold for (id, *_), gold in zip(expected, golds) if gold != "NIL"]
    assert np.mean(right) > 0.95
    untrained = with_reranker(trained)
    untrained.initialize(lambda: examples(untrained))
    assert np.mean([id == gold for (id, *_), gold in zip(linked(untrained), golds)]) < 0.8


def test_what_it_writes(reranked: Trained, expected) -> None:
    for id, score, probability, candidates in expected:
        again = [candidate["rerank_score"] for candidate in candidates]
        assert len(candidates) == 5 and again[RERANK:] == [None]
        assert again[:RERANK] == sorted(again[:RERANK], reverse=True)
        assert np.exp(again[:RERANK]).sum() == pytest.approx(1, abs=1e-5)
        assert probability is None
        assert (id, score) == (candidates[0]["id"], candidates[0]["score"])
    assert json.loads(json.dumps(expected)) == expected


def test_the_candidates_are_the_retrievers(trained: Trained, reranked: Trained, expected) -> None:
    by_retriever = linked(trained.nlp)
    moved = 0
    for (*_, before), (*_, after) in zip(by_retriever, expected):
        cosines = {candidate["id"]: candidate["score"] for candidate in after}
        assert cosines == {candidate["id"]: candidate["score"] for candidate in before}
        moved += [c["id"] for c in before] != list(cosines)
    assert moved > 5
    nlp = spacy.load(reranked.path)
    nlp.get_pipe("proxy_linker").rerank = 0
    assert linked(nlp) == by_retriever


def test_a_batch_changes_no_answer(reranked: Trained, expected) -> None:
    nlp = reranked.nlp
    texts = mentions_of(nlp, TRAIN)
    for found in (
        results(nlp.pipe(mentions_of(nlp, TRAIN), batch_size=1)),
        results(nlp.pipe(mentions_of(nlp, TRAIN), batch_size=64)),
        results([nlp(doc) for doc in texts]),
    ):
        assert [id for id, *_ in found] == [id for id, *_ in expected]
        for (*_, a), (*_, b) in zip(found, expected):
            for x, y in zip(a, b, strict=True):
                assert x["id"] == y["id"]
                assert x["rerank_score"] == pytest.approx(y["rerank_score"], abs=1e-4)


def test_empty_docs_and_docs_without_mentions(reranked: Trained) -> None:
    docs = list(reranked.nlp.pipe(["", "No mention."]))
    assert [doc.ents for doc in docs] == [(), ()]


def test_nil_is_the_retrievers_to_decide(reranked: Trained, expected) -> None:
    nlp = spacy.load(reranked.path)
    best = [max(c["score"] for c in candidates) for *_, candidates in expected]
    threshold = float(np.median(best))
    nlp.get_pipe("proxy_linker").nil_threshold = threshold
    nlp.get_pipe("proxy_linker").sure_probability = None
    assert [id == "NIL" for id, *_ in linked(nlp)] == [score < threshold for score in best]


def test_a_calibration_is_of_so_many_candidates(reranked: Trained, expected) -> None:
    nlp = spacy.load(reranked.path)
    linker = nlp.get_pipe("proxy_linker")
    linker.calibration = Calibration(1.0, 0.0, reranked=RERANK)
    for _, _, probability, candidates in linked(nlp):
        best = np.exp(candidates[0]["rerank_score"])
        assert probability == pytest.approx(best / (1 + best), abs=1e-5)
    for other in (0, 3):
        linker.rerank = other
        assert {probability for *_, probability, _ in linked(nlp)} == {None}


# Training


def test_the_retriever_stands_still(trained: Trained, reranked: Trained) -> None:
    before, after = (t.nlp.get_pipe("proxy_linker") for t in (trained, reranked))
    assert after.model.to_bytes() == before.model.to_bytes()
    for name in ("model", "kb.json"):
        a, b = ((t.path / "proxy_linker" / name).read_bytes() for t in (trained, reranked))
        assert a == b or name == "kb.json"
    assert after.retriever.entity_fingerprint() == after.kb.fingerprint


def test_losses_and_gradients(trained: Trained) -> None:
    nlp = with_reranker(trained)
    linker = nlp.get_pipe("proxy_linker")
    assert linker.trainer is None
    nlp.initialize(lambda: examples(nlp))
    retriever, before = weights(linker.model.layers[0]), weights(linker.reranker_model.layers[0])
    losses = linker.update(examples(nlp), sgd=None)
    assert losses["proxy_linker"] > 0 and same(weights(linker.reranker_model.layers[0]), before)
    linker.finish_update(Adam(0.01))
    after = weights(linker.reranker_model.layers[0])
    assert not any(np.array_equal(before[name], after[name]) for name in before)
    assert same(weights(linker.model.layers[0]), retriever)
    assert linker.trainer.counts.pair_inputs > 100
    linker.finish_training()
    assert linker.trainer is None


def test_training_drops_the_calibration_but_not_the_threshold(reranked: Trained) -> None:
    nlp = spacy.load(reranked.path)
    linker = nlp.get_pipe("proxy_linker")
    linker.nil_threshold, linker.calibration = 0.25, Calibration(1.0, 0.0, RERANK)
    assert nlp.update(examples(nlp), sgd=Adam(0.001))["proxy_linker"] < 1.5  # it goes on
    assert linker.nil_threshold == 0.25 and linker.calibration is None


def test_entities_seen_by_either_are_seen(trained: Trained) -> None:
    nlp = with_reranker(trained)
    linker = nlp.get_pipe("proxy_linker")
    seen = set(linker.cfg["trained_entities"])
    new = [("A liver cyst.", {"liver cyst": "D00"})]
    nlp.initialize(lambda: examples(nlp, new))
    assert "D00" not in seen and set(linker.cfg["trained_entities"]) == seen | {"D00"}


def test_a_retriever_is_needed(trained: Trained, tmp_path: Path) -> None:
    nlp = with_reranker(trained, path=None, kb=str(trained.kb))
    with pytest.raises(PelError, match='candidates of a trained retriever; .* as its "path"'):
        nlp.initialize(lambda: examples(nlp))


@pytest.mark.parametrize("rerank", [0, 1])
def test_there_must_be_a_choice(trained: Trained, rerank: int) -> None:
    nlp = with_reranker(trained, rerank=rerank)
    with pytest.raises(PelError, match=f'"rerank" of "proxy_linker" is {rerank}; .* 2 or more'):
        nlp.initialize(lambda: examples(nlp))


def test_fewer_than_none_is_refused(reranked: Trained) -> None:
    with pytest.raises(PelError, match='"rerank" of "proxy_linker" is -1; set it to 0'):
        spacy.load(reranked.path, config={"components": {"proxy_linker": {"rerank": -1}}})


def test_a_kb_without_vectors_is_refused(trained: Trained, tmp_path: Path) -> None:
    bare = build_kb(ENTITIES, tmp_path / "kb").path
    nlp = with_reranker(trained, kb=str(bare))
    with pytest.raises(PelError, match="has no vectors; run: python -m spacy pel kb embed"):
        nlp.initialize(lambda: examples(nlp))


def test_a_kb_of_another_encoder_is_refused(trained: Trained, tiny_folder: Path) -> None:
    other = spacy.load(tiny_folder).get_pipe("proxy_linker").kb.path
    nlp = with_reranker(trained, kb=str(other))
    with pytest.raises(PelError, match="made by another encoder"):
        nlp.initialize(lambda: examples(nlp))


def test_a_corpus_of_other_identifiers_is_refused(trained: Trained) -> None:
    nlp = with_reranker(trained)
    with pytest.raises(PelError, match="check that the corpus and the KB use the same"):
        nlp.initialize(lambda: examples(nlp, [("It is MS.", {"MS": "XYZ"})]))


def test_an_untrained_reranker_is_not_used(trained: Trained) -> None:
    nlp = with_reranker(trained)
    with pytest.raises(PelError, match="has no trained reranker; train one .*rerank = 0"):
        linked(nlp)
    nlp.get_pipe("proxy_linker").rerank = 0
    assert linked(nlp) == linked(trained.nlp)


def test_spacys_training_loop(trained: Trained, tmp_path: Path) -> None:
    linker = "components.proxy_linker"
    changes = {
        f"{linker}.path": str(trained.path),
        f"{linker}.rerank": RERANK,
        f"{linker}.reranker": RERANKER,
        "training.max_steps": 2,
    }
    config = write_config(tmp_path, trained.kb, TRAIN[:12], TRAIN[:12], **changes)
    train_by_spacy(config, tmp_path / "output")
    loaded = spacy.load(tmp_path / "output" / "model-best")
    assert loaded.meta["performance"]["proxy_linker_loss"] > 0
    assert linked(loaded)[0][-1][0]["rerank_score"] < 0
    encoder = encoder_of(loaded.get_pipe("proxy_linker").reranker_model.layers[0])
    assert encoder.tokenizer.token_to_id("[Ms]") is not None


# Saving and loading


def test_disk_and_bytes_keep_all(reranked: Trained, expected, tmp_path: Path) -> None:
    assert linked(spacy.load(reranked.path)) == expected
    original = reranked.nlp.get_pipe("proxy_linker")
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker", config={**CONFIG, "rerank": RERANK})
    linker.from_bytes(original.to_bytes())
    assert linked(nlp) == expected
    assert linker.to_bytes() == original.to_bytes()
    linker.to_disk(tmp_path / "linker")
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={**CONFIG, "rerank": RERANK}).from_disk(tmp_path / "linker")
    assert linked(nlp) == expected


def test_opened_sourced_and_saved_again(reranked: Trained, expected, tmp_path: Path) -> None:
    shutil.copytree(reranked.path, tmp_path / "original")
    config = {"path": str(tmp_path / "original"), "candidates": 5, "rerank": RERANK}
    opened, sourced = spacy.blank("en"), spacy.blank("en")
    opened.add_pipe("proxy_linker", config=config)
    sourced.add_pipe("proxy_linker", source=spacy.load(tmp_path / "original"))
    for nlp in (opened, sourced):
        assert linked(nlp) == expected
    opened.to_disk(tmp_path / "copy")
    shutil.rmtree(tmp_path / "original")
    assert linked(spacy.load(tmp_path / "copy")) == expected


def test_a_reranker_that_the_config_names_is_a_new_one(reranked: Trained) -> None:
    nlp = with_reranker(reranked)
    with pytest.raises(PelError, match="has no trained reranker"):
        linked(nlp)
    nlp.initialize(lambda: examples(nlp))
    assert train(nlp, 1)[0] > 0


def test_what_is_trained_is_not_initialised_anew(reranked: Trained) -> None:
    nlp = spacy.load(reranked.path)
    with pytest.raises(PelError, match='already trained.* as its "source"'):
        nlp.initialize(lambda: examples(nlp))


def test_a_folder_is_left_without_the_reranker_of_before(
    trained: Trained, reranked: Trained, tmp_path: Path
) -> None:
    shutil.copytree(reranked.path, tmp_path / "pipeline")
    assert (tmp_path / "pipeline" / "proxy_linker" / "reranker").is_file()
    trained.nlp.to_disk(tmp_path / "pipeline")
    assert not (tmp_path / "pipeline" / "proxy_linker" / "reranker").exists()
    assert spacy.load(tmp_path / "pipeline").get_pipe("proxy_linker").reranker_model is None


def test_what_was_saved_without_one_gets_none_of_what_is_opened(
    trained: Trained, reranked: Trained, tmp_path: Path
) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={"path": str(reranked.path)})
    data = trained.nlp.get_pipe("proxy_linker").to_bytes()
    assert nlp.get_pipe("proxy_linker").from_bytes(data).reranked == 0
    opened = spacy.blank("en")
    opened.add_pipe("proxy_linker", config={"path": str(reranked.path)})
    saved = opened.get_pipe("proxy_linker").from_disk(trained.path / "proxy_linker")
    assert saved.reranked == 0


def test_exclude_is_honoured(reranked: Trained) -> None:
    linker = reranked.nlp.get_pipe("proxy_linker")
    names = set(srsly.msgpack_loads(linker.to_bytes(exclude=["model"])))
    assert names == {"cfg", "reranker", "kb.json"}
    assert "reranker" not in srsly.msgpack_loads(linker.to_bytes(exclude=["reranker"]))


def test_nothing_is_pickled(reranked: Trained) -> None:
    with safe_open(reranked.path / "proxy_linker" / "reranker", "pt") as file:
        (facts,) = map(json.loads, file.metadata().values())
    assert facts["settings"]["length"]


def test_workers_give_the_same(reranked: Trained, expected, tmp_path: Path) -> None:
    alone, shared = link_elsewhere(reranked.path, tmp_path, 1, 2)
    assert shared == alone
    assert [id for id, *_ in alone] == [id for id, *_ in expected]


def test_without_a_reranker_nothing_of_it_is_loaded(trained: Trained, tmp_path: Path) -> None:
    DocBin(docs=mentions_of(spacy.blank("en"), TRAIN)).to_disk(tmp_path / "docs.spacy")
    command = [sys.executable, "-c", OF_THE_RERANKER, str(trained.path), tmp_path / "docs.spacy"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == ["linked"]


def test_the_kb_may_be_another_one(reranked: Trained, tmp_path: Path) -> None:
    nlp = spacy.load(reranked.path)
    linker = nlp.get_pipe("proxy_linker")
    other = build_kb(PROBLEM[:9], tmp_path / "kb").path
    embed_kb(other, linker)
    linker.set_kb(other)
    assert {id for id, *_ in linked(nlp)} <= {entity.concept_id for entity in PROBLEM[:9]}
