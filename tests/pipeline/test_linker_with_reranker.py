import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from thinc.api import Adam

from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb

from ..conftest import ENTITIES
from ..rankings import ranking_by_score
from ..training.problem import same, weights
from .conftest import CONFIG, RERANK, TRAIN, Trained, examples, linked, train, with_reranker


@pytest.fixture(scope="module")
def expected(reranked: Trained) -> list[list[Any]]:
    return linked(reranked.nlp)


def test_it_learns(trained: Trained, expected) -> None:
    golds = [id for _, mentions in TRAIN for id in mentions.values()]
    right = [id == gold for (id, *_), gold in zip(expected, golds) if gold != "NIL"]
    assert np.mean(right) > 0.95
    untrained = with_reranker(trained)
    untrained.initialize(lambda: examples(untrained))
    assert np.mean([id == gold for (id, *_), gold in zip(linked(untrained), golds)]) < 0.8


def test_it_orders_the_retrievers_candidates(trained: Trained, reranked: Trained, expected) -> None:
    by_retriever = linked(trained.nlp)
    moved = 0
    for (*_, before), (id, score, probability, after) in zip(by_retriever, expected):
        again = [candidate["rerank_score"] for candidate in after]
        assert len(after) == 5 and again[RERANK:] == [None]
        assert again[:RERANK] == sorted(again[:RERANK], reverse=True)
        assert np.exp(again[:RERANK]).sum() == pytest.approx(1, abs=1e-5)
        assert (id, score, probability) == (after[0]["id"], after[0]["score"], None)
        cosines = {candidate["id"]: candidate["score"] for candidate in after}
        assert cosines == {candidate["id"]: candidate["score"] for candidate in before}
        moved += [c["id"] for c in before] != list(cosines)
    assert moved > 5
    nlp = spacy.load(reranked.path)
    nlp.get_pipe("proxy_linker").search.rerank = 0
    assert linked(nlp) == by_retriever


def test_a_ranking_is_of_so_many_candidates(reranked: Trained) -> None:
    nlp = spacy.load(reranked.path)
    linker = nlp.get_pipe("proxy_linker")
    linker.ranking = ranking_by_score(reranked=RERANK)
    assert None not in {probability for *_, probability, _ in linked(nlp)}
    linker.search.rerank = 3
    assert {probability for *_, probability, _ in linked(nlp)} == {None}


def test_the_reranker_alone_is_trained(trained: Trained) -> None:
    nlp = with_reranker(trained)
    linker = nlp.get_pipe("proxy_linker")
    assert linker.trainer is None
    nlp.initialize(lambda: examples(nlp))
    reranker = linker.reranker_model
    retriever, before = linker.model.to_bytes(), weights(reranker)
    losses = linker.update(examples(nlp), sgd=None)
    assert losses["proxy_linker"] > 0 and same(weights(reranker), before)
    linker.finish_update(Adam(0.01))
    after = weights(reranker)
    assert not any(np.array_equal(before[name], after[name]) for name in before)
    assert linker.model.to_bytes() == retriever
    linker.finish_training()
    assert linker.trainer is None


def test_training_goes_on_and_drops_the_ranking_and_its_threshold(reranked: Trained) -> None:
    nlp = spacy.load(reranked.path)
    linker = nlp.get_pipe("proxy_linker")
    linker.nil_threshold, linker.ranking = 0.25, ranking_by_score(reranked=RERANK)
    assert nlp.update(examples(nlp), sgd=Adam(0.001))["proxy_linker"] < 1.5
    assert linker.nil_threshold is None and linker.ranking is None


def test_training_needs_a_retriever_a_choice_and_vectors(trained: Trained, tmp_path: Path) -> None:
    bare = str(build_kb(ENTITIES, tmp_path / "kb").path)
    for changes, message in (
        ({"path": None, "kb": str(trained.kb)}, 'candidates of a trained retriever; .* "path"'),
        ({"rerank": 1}, '"rerank" of "proxy_linker" is 1; .* 2 or more'),
        ({"kb": bare}, "has no vectors; run: python -m spacy pel kb embed"),
        ({"rerank": -1}, '"rerank" of "proxy_linker" is -1; set it to 0'),
    ):
        with pytest.raises(PelError, match=message):
            nlp = with_reranker(trained, **changes)
            nlp.initialize(lambda nlp=nlp: examples(nlp))


def test_saved_opened_and_sourced_it_is_the_same(reranked, expected, tmp_path: Path) -> None:
    original = reranked.nlp.get_pipe("proxy_linker")
    of_bytes, opened, sourced = (spacy.blank("en") for _ in range(3))
    linker = of_bytes.add_pipe("proxy_linker", config={**CONFIG, "rerank": RERANK})
    linker.from_bytes(original.to_bytes())
    assert linker.to_bytes() == original.to_bytes()
    shutil.copytree(reranked.path, tmp_path / "original")
    config = {"path": str(tmp_path / "original"), "candidates": 5, "rerank": RERANK}
    opened.add_pipe("proxy_linker", config=config)
    sourced.add_pipe("proxy_linker", source=spacy.load(tmp_path / "original"))
    opened.to_disk(tmp_path / "copy")
    shutil.rmtree(tmp_path / "original")
    copied = spacy.load(tmp_path / "copy")
    for nlp in (spacy.load(reranked.path), of_bytes, opened, sourced, copied):
        assert linked(nlp) == expected


def test_a_reranker_that_the_config_names_is_a_new_one(trained: Trained, reranked: Trained) -> None:
    nlp = with_reranker(reranked)
    linker = nlp.get_pipe("proxy_linker")
    with pytest.raises(PelError, match="has no trained reranker; train one .*rerank = 0"):
        linked(nlp)
    linker.search.rerank = 0
    assert linked(nlp) == linked(trained.nlp)
    linker.search.rerank = RERANK
    nlp.initialize(lambda: examples(nlp))
    assert train(nlp, 1, rate=0.01)[0] > 0


def test_saving_and_loading_without_one_removes_that_of_before(
    trained: Trained, reranked: Trained, tmp_path: Path
) -> None:
    shutil.copytree(reranked.path, tmp_path / "pipeline")
    trained.nlp.to_disk(tmp_path / "pipeline")
    assert not (tmp_path / "pipeline" / "proxy_linker" / "reranker").exists()
    data = trained.nlp.get_pipe("proxy_linker").to_bytes()
    for load in (
        lambda linker: linker.from_bytes(data),
        lambda linker: linker.from_disk(tmp_path / "pipeline" / "proxy_linker"),
    ):
        opened = spacy.blank("en").add_pipe("proxy_linker", config={"path": str(reranked.path)})
        assert opened.reranked and not load(opened).reranked
