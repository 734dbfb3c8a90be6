"""Evaluation and calibration of a pipeline that reranks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language

from spacy_pel.architectures import TrainedEncoder, encoder_of
from spacy_pel.architectures.crossencoder import CrossEncoder
from spacy_pel.fitting.evaluate import evaluate
from spacy_pel.linking.calibration import FittedWeight
from spacy_pel.linking.link import link
from spacy_pel.reading.mention import MentionInContext

from ..fitting.calibration_corpus import MENTIONS, TEXT, pubtator
from ..towers import spread_weights


@pytest.fixture
def pipeline(tiny_folder: Path, tmp_path: Path) -> Path:
    """The tiny pipeline with a reranker of random weights, which puts all in another order."""
    nlp = spacy.load(tiny_folder)
    linker = nlp.get_pipe("proxy_linker")
    torch.manual_seed(0)
    linker.reranker_model = CrossEncoder(TrainedEncoder(str(tiny_folder)), length=40)
    linker.reranker_model.initialize(X=[])
    spread_weights(encoder_of(linker.reranker_model.layers[0]))
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "dev.pubtator"
    path.write_text(pubtator(MENTIONS), encoding="utf8")
    return path


def evaluated(run, pipeline: Path, corpus: Path, *options: object) -> dict:
    file = pipeline.parent / "metrics.json"
    run("evaluate", pipeline, corpus, "--output", file, *options)
    return without_speed(json.loads(file.read_text("utf8")))


def without_speed(metrics: dict) -> dict:
    return {k: v for k, v in metrics.items() if k not in ("mentions_per_second", "pipeline")}


def test_with_and_without(run, pipeline: Path, corpus: Path, tiny_nlp: Language) -> None:
    reranked = evaluated(run, pipeline, corpus)
    without = evaluated(run, pipeline, corpus, "--rerank", 0)
    assert (reranked["reranked"], without["reranked"]) == (16, 0)
    assert without == without_speed(evaluate(tiny_nlp, [corpus]))
    assert reranked["mrr"] != without["mrr"]
    assert reranked["recall@16"] == without["recall@16"]
    assert reranked["nil"]["average_precision"] == without["nil"]["average_precision"]


def test_a_pipeline_without_a_reranker_cannot_rerank(
    run, tiny_folder: Path, corpus: Path, tmp_path: Path
) -> None:
    output = tmp_path / "metrics.json"
    options = ("--output", output, "--rerank", 4)
    message = run("evaluate", tiny_folder, corpus, *options, code=1)
    assert "has no trained reranker; train one" in message and not output.exists()


def test_what_is_calibrated_is_the_rerankers_score(run, pipeline: Path, corpus: Path) -> None:
    linker = spacy.load(pipeline).get_pipe("proxy_linker")
    nlp = spacy.load(pipeline)
    doc = nlp.make_doc(TEXT)
    places = [(TEXT.index(m), TEXT.index(m) + len(m)) for m, _ in MENTIONS]
    doc.ents = [doc.char_span(*place, label="TERM") for place in places]
    linked = linker(doc.copy())
    best = [ent._.kb_candidates[0] for ent in linked.ents]
    # Right for two mentions, wrong for one.
    golds = [best[0]["id"], best[1]["id"], "C98", "C98", "-1"]
    corpus.write_text(pubtator([(m, g) for (m, _), g in zip(MENTIONS, golds)]), encoding="utf8")
    run("calibrate", pipeline, corpus)
    calibrated = spacy.load(pipeline).get_pipe("proxy_linker")
    assert calibrated.calibration.reranked == 16
    again = calibrated(doc.copy())
    slope, intercept, _, margin_slope, _ = calibrated.calibration
    for ent in again.ents:
        first, *others = [c["rerank_score"] for c in ent._.kb_candidates]
        margin = first - max(score for score in others if score is not None)
        logit = slope * first + margin_slope * margin + intercept
        assert ent._.kb_probability == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-6)
    printed = run("calibrate", pipeline, corpus, "--names")
    before = re.search(r"calibration error: ([\d.]+) before", printed)
    assert float(before[1]) <= 100  # an exact name may take a logarithm above 0
    calibrated.rerank = 0
    assert [ent._.kb_probability for ent in calibrated(doc.copy()).ents] == [None] * 5


def with_retriever(pipeline: Path, weight: float = 32.0) -> Path:
    """The pipeline, whose reranker counts the retriever's scores as well."""
    nlp = spacy.load(pipeline)
    nlp.get_pipe("proxy_linker").reranker_model.attrs["retriever_weight"] = weight
    nlp.to_disk(pipeline)
    return pipeline


def order(nlp: Language, weight: FittedWeight | None) -> list[list[str]]:
    """The candidates of the mentions, best first, with such a weight of the cross-encoder."""
    linker = nlp.get_pipe("proxy_linker")
    linker.rerank_weight = weight
    doc = nlp.make_doc(TEXT)
    places = [(TEXT.index(m), TEXT.index(m) + len(m)) for m, _ in MENTIONS]
    doc.ents = [doc.char_span(*place, label="TERM") for place in places]
    return [[c["id"] for c in ent._.kb_candidates] for ent in linker(doc).ents]


def right_for_two(corpus: Path, nlp: Language, weight: FittedWeight) -> None:
    """Write the corpus so that two mentions' best candidates are right, by such a weight."""
    best = [candidates[0] for candidates in order(nlp, weight)]
    golds = [best[0], best[1], "C98", "C98", "-1"]
    corpus.write_text(pubtator([(m, g) for (m, _), g in zip(MENTIONS, golds)]), encoding="utf8")


def test_what_the_cross_encoder_counts_is_fitted_and_stored(
    run, pipeline: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp = spacy.load(with_retriever(pipeline))
    alone = nlp.get_pipe("proxy_linker").reranker.scores
    seen = []
    monkeypatch.setattr(
        "spacy_pel.fitting.calibrate.feature_weight", lambda *table: (seen.append(table), 0.25)[1]
    )
    right_for_two(corpus, nlp, FittedWeight(0.25, 16))
    printed = run("calibrate", pipeline, corpus)
    assert "The reranker's score counts 0.250 times" in printed
    linker = spacy.load(pipeline).get_pipe("proxy_linker")
    assert linker.rerank_weight == (0.25, 16) and linker.name_weight is None

    (found, pairs, right) = seen[0]
    read = np.isfinite(found)
    assert read.sum(axis=1).tolist() == [min(16, len(linker.kb))] * len(MENTIONS)
    # The retriever's share, and the cross-encoder's but for one number a mention.
    starts = sorted(TEXT.index(m) for m, _ in MENTIONS)
    lengths = {TEXT.index(m): len(m) for m, _ in MENTIONS}
    mentions = [MentionInContext(TEXT, start, start + lengths[start]) for start in starts]
    links = link(linker.retriever, linker.kb, mentions, min(16, len(linker.kb)))
    scores = alone(mentions, links.numbers, links.scores, linker.kb) - 32 * links.scores
    for row in range(len(MENTIONS)):
        ranks = np.argsort(-found[row])[: scores.shape[1]]
        np.testing.assert_allclose(found[row][ranks], 32 * links.scores[row], atol=1e-4)
        difference = pairs[row][ranks] - scores[row]
        np.testing.assert_allclose(difference, difference[0], atol=1e-3)
    run("calibrate", pipeline, corpus, "--names")
    assert len(seen) == 3  # and again, with one more for names
