"""Reranking with the right entity always among the candidates, against pairs scored one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy
from papers.oracle_reranking import oracle_recall
from spacy.language import Language
from thinc.api import fix_random_seed

from spacy_pel.errors import PelError
from spacy_pel.fitting.gold_examples import gold_examples
from spacy_pel.kb import Entity, build_kb
from spacy_pel.pipeline.doc_mentions import trainable_mentions

from ...conftest import CONFIG, ENTITIES, make_tiny_nlp
from ...fitting.calibration_corpus import pubtator

GOLDS = [
    *(("Aspirin", "C05"), ("headache", "C06"), ("MS", "C02"), ("kidney", "C07")),
    *(("measured", "C99"), ("mice", "C04"), ("relieves", "C01")),
]
TOP = 2


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "dev.pubtator"
    path.write_text(pubtator(GOLDS), encoding="utf8")
    return path


def with_reranker(folder: Path, retriever_weight: float) -> Language:
    """A pipeline whose reranker has random weights."""
    fix_random_seed(0)
    nlp = spacy.blank("xx")
    encoder = {"@misc": "spacy-pel.ScratchEncoder.v1", **CONFIG["model"]["encoder"]}
    reranker = {"@architectures": "spacy-pel.CrossEncoder.v1", "length": 48, "encoder": encoder}
    reranker["retriever_weight"] = retriever_weight
    config = {"path": str(folder), "reranker": reranker, "rerank": TOP}
    linker = nlp.add_pipe("proxy_linker", config=config)
    linker.reranker_model.initialize(X=[entity.canonical_name for entity in ENTITIES])
    return nlp


def naive(nlp: Language, corpus: Path, others: list[Language]) -> dict[str, float]:
    linker = nlp.get_pipe("proxy_linker")
    examples = gold_examples(nlp, linker, [corpus])
    resolved = linker.resolve_abbreviations
    right: dict[str, list[bool]] = {"retrieved": [], "self": [], "union": []}
    for mention in trainable_mentions(examples, linker.kb, None, resolved):
        found = {}
        for each in (nlp, *others):
            pipe = each.get_pipe("proxy_linker")
            numbers, scores = pipe.kb.search(pipe.retriever.mention_vectors([mention.context]), TOP)
            ids = [id for id, _ in pipe.kb.labels(numbers[0])]
            found[each] = {id: s for id, s in zip(ids, scores[0].tolist()) if id in linker.kb}
        golds = {id for id, _ in linker.kb.labels(list(mention.golds))}
        own, last = found[nlp], min(found[nlp].values())
        joined = {**{id: last for other in others for id in found[other]}, **own}
        kept = own if golds & set(own) else {**dict(list(own.items())[:-1]), min(golds): last}
        for name, candidates in (
            ("retrieved", own),
            ("self", kept),
            ("union", joined if golds & set(joined) else {**joined, min(golds): last}),
        ):
            scored = [(-score_of(linker, mention, id, candidates[id]), id) for id in candidates]
            right[name].append(min(scored)[1] in golds)
    return {name: float(np.mean(hits)) for name, hits in right.items()}


def score_of(linker, mention, id: str, score: float) -> float:
    number = np.array([[linker.kb.number(id)]])
    scores = np.array([[score]], dtype=np.float32)
    return float(linker.reranker.scores([mention.context], number, scores, linker.kb)[0, 0])


@pytest.fixture
def others(tmp_path: Path) -> list[Language]:
    """Retrievers of other weights, to KBs that number entities in another way."""
    found = []
    for width, entities in ((16, ENTITIES[1:]), (48, [Entity("A00", "lesion"), *ENTITIES])):
        kb = build_kb(entities, tmp_path / f"kb{width}").path
        encoder = {**CONFIG["model"]["encoder"], "width": width}
        config = {"model": {**CONFIG["model"], "encoder": encoder}}
        found.append(make_tiny_nlp(kb, config))
    return found


@pytest.mark.parametrize("retriever_weight", [0.0, 20.0])
def test_it_equals_pairs_scored_one_by_one(
    tiny_folder: Path, others: list[Language], corpus: Path, retriever_weight: float
) -> None:
    nlp = with_reranker(tiny_folder, retriever_weight)
    assert oracle_recall(nlp, [corpus], retrievers=others) == naive(nlp, corpus, others)
    alone = oracle_recall(nlp, [corpus])
    assert alone == naive(nlp, corpus, [])
    assert alone["retrieved"] <= alone["self"]


def test_without_a_reranker_it_is_an_error(tiny_nlp: Language, corpus: Path) -> None:
    with pytest.raises(PelError, match='"proxy_linker" has no reranker; give'):
        oracle_recall(tiny_nlp, [corpus])
