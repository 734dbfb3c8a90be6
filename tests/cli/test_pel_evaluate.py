"""Evaluation: metrics over 64 candidates, of the gold mentions alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from spacy.language import Language

from spacy_pel.kb import KnowledgeBase
from spacy_pel.reading.mention import MentionInContext

from ..fitting.evaluation_corpus import CORPUS

MENTIONS = [(0, 7, 4), (17, 25, 5), (30, 32, 2)]  # those in the KB, with the numbers of their golds


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "dev.pubtator"
    path.write_text(CORPUS, encoding="utf8")
    return path


def test_metrics_agree_with_brute_force(
    run, tiny_folder: Path, tiny_nlp: Language, corpus: Path, tmp_path: Path
) -> None:
    output = run("evaluate", tiny_folder, corpus, "--output", tmp_path / "m" / "metrics.json")
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text("utf8"))
    assert "| recall@64 |" in output
    assert (metrics["mentions"], metrics["in_kb"]) == (5, 3)
    assert (metrics["seen"], metrics["unseen"]) == (2, 1)

    linker = tiny_nlp.get_pipe("proxy_linker")
    text = "Aspirin relieves headache and RA. MS is not measured in the kidney."
    mentions = [MentionInContext(text, start, end) for start, end, _ in MENTIONS]
    ranking = linker.kb.search(linker.retriever.mention_vectors(mentions), 7).numbers
    ranks = [1 + row.tolist().index(gold) for row, (*_, gold) in zip(ranking, MENTIONS)]
    ranks[:2] = [1, 1]  # aspirin and headache alone have these names
    for k in (1, 5, 16, 64):
        hits = sum(rank <= k for rank in ranks)
        assert metrics[f"recall@{k}"]["in_kb"] == pytest.approx(hits / 3)
        assert metrics[f"recall@{k}"]["all"] == pytest.approx(hits / 5)
    assert metrics["mrr"]["in_kb"] == pytest.approx(np.mean(1 / np.array(ranks)))
    assert metrics["nel_micro_r"] == pytest.approx(sum(r == 1 for r in ranks) / 4)
    assert "| mrr " in output and "NIL: 2 mentions; average precision" in output
    assert metrics["nil"]["gold"] == 2 and metrics["nil"]["precision"] is None
    assert metrics["nil"]["recall@1"] == metrics["recall@1"]["all"]  # nothing is called NIL
    assert "expected_calibration_error" not in metrics
    assert metrics["mentions_per_second"] > 0
    assert metrics["kb_entities"] == 7
    assert metrics["corpus"] == [str(corpus)]
    assert metrics["pipeline"] == str(tiny_folder)


def test_without_a_file_the_table_is_printed(run, tiny_folder: Path, corpus: Path) -> None:
    assert "| recall@64 |" in run("evaluate", tiny_folder, corpus)


def test_errors_are_told_and_write_nothing(
    run, tiny_folder: Path, corpus: Path, bare_kb: KnowledgeBase, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "metrics.json"
    arguments = ("evaluate", tiny_folder, corpus, "-o", out)
    assert "has no vectors" in run(*arguments, "--kb", bare_kb.path, code=1)
    corpus.write_text("1|t|Nothing here.\n1|a|\n", encoding="utf8")
    assert f"{corpus}: no mentions; give a corpus that has some" in run(*arguments, code=1)
    corpus.write_text("1|t|MS\n1|a|\n1\t0\t2\tMS\tD\tD123\n", encoding="utf8")
    assert "none of the 1 gold ids, such as D123, is in" in run(*arguments, code=1)
    corpus.write_text("1|t|MS\n1|a|\n1\t0\t9\tMS\tD\tC01\n", encoding="utf8")
    assert f"{corpus}" in run(*arguments, code=1)
    assert list(out.parent.iterdir()) == []
