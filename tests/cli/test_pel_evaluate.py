import json
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language

from spacy_pel.calibration.calibrate import calibrate
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.text.mention_inputs import MentionInContext

from ..calibration.corpora import CORPUS, write_corpus
from ..conftest import contents

# The mentions of CORPUS that are in the KB, with the numbers of their golds.
IN_KB = [(0, 7, 4), (17, 25, 5), (30, 32, 2)]


def test_metrics_agree_with_brute_force(run, tiny_folder, tiny_nlp, tmp_path) -> None:
    corpus, file = tmp_path / "dev.pubtator", tmp_path / "m" / "metrics.json"
    corpus.write_text(CORPUS, encoding="utf8")
    output = run("evaluate", tiny_folder, corpus, "--output", file)
    metrics = json.loads(file.read_text("utf8"))
    assert [metrics[name] for name in ("mentions", "in_kb", "seen", "unseen")] == [5, 3, 2, 1]
    linker = tiny_nlp.get_pipe("proxy_linker")
    text = "Aspirin relieves headache and RA. MS is not measured in the kidney."
    mentions = [MentionInContext(text, start, end) for start, end, _ in IN_KB]
    ranking = linker.kb.search(linker.retriever.predict(mentions), 7).numbers
    ranks = [1 + row.tolist().index(gold) for row, (*_, gold) in zip(ranking, IN_KB)]
    ranks[:2] = [1, 1]  # aspirin and headache alone have these names
    for k in (1, 5, 16, 64):
        hits = sum(rank <= k for rank in ranks)
        assert metrics[f"recall@{k}"]["in_kb"] == pytest.approx(hits / 3)
        assert metrics[f"recall@{k}"]["all"] == pytest.approx(hits / 5)
    assert metrics["mrr"]["in_kb"] == pytest.approx(np.mean(1 / np.array(ranks)))
    assert metrics["nel_micro_r"] == pytest.approx(sum(r == 1 for r in ranks) / 4)
    assert metrics["nil"]["recall@1"] == metrics["recall@1"]["all"]  # nothing is called NIL
    assert "expected_calibration_error" not in metrics
    assert (metrics["kb_entities"], metrics["corpus"]) == (7, [str(corpus)])
    for said in (output, run("evaluate", tiny_folder, corpus)):  # also without a file
        assert "| recall@64 |" in said and "NIL: 2 mentions; average precision" in said


def test_errors_are_told_and_write_nothing(run, tiny_folder, bare_kb, tmp_path) -> None:
    corpus, out = tmp_path / "dev.pubtator", tmp_path / "out" / "metrics.json"
    arguments = ("evaluate", tiny_folder, corpus, "-o", out)
    for text, message in (
        ("1|t|Nothing here.\n1|a|\n", f"{corpus}: no mentions; give a corpus with documents"),
        ("1|t|MS\n1|a|\n1\t0\t2\tMS\tD\tD123\n", "none of the 1 gold ids, such as D123, is in"),
        ("1|t|MS\n1|a|\n1\t0\t9\tMS\tD\tC01\n", str(corpus)),
    ):
        corpus.write_text(text, encoding="utf8")
        assert message in run(*arguments, code=1)
    assert "has no vectors" in run(*arguments, "--kb", bare_kb.path, code=1)
    assert "has no trained reranker; train one" in run(*arguments, "--rerank", 4, code=1)
    assert list(out.parent.iterdir()) == []


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    """A corpus for calibration, see ``write_corpus``."""
    return write_corpus(tiny_nlp, tmp_path / "dev.pubtator")


def test_only_the_settings_change(run, pipeline: Path, corpus: Path) -> None:
    before = contents(pipeline)
    output = run("calibrate", pipeline, corpus)
    after = contents(pipeline)
    assert set(after) == set(before)
    assert [n for n in after if after[n] != before[n]] == ["proxy_linker/cfg"]
    assert "NIL if the probability that a candidate is correct is below" in output
    assert "Expected calibration error:" in output and "on 5 mentions" in output
    # The pipeline, evaluated on the same single document, has the figures that were promised.
    figures = calibrate(spacy.load(pipeline), [corpus])
    metrics = evaluate(spacy.load(pipeline), [corpus])
    for name in ("f1", "average_precision", "recall@1", "recall@64"):
        assert metrics["nil"][name] == pytest.approx(figures.nil[name])
    assert metrics["recall@1"]["in_kb"] == figures.recall_after
    assert metrics["expected_calibration_error"] == pytest.approx(figures.error, abs=1e-6)

    lines = corpus.read_text("utf8").splitlines()
    corpus.write_text("\n".join(lines[:5]) + "\n", encoding="utf8")
    assert "No gold mention is NIL" in run("calibrate", pipeline, corpus)
    linker = spacy.load(pipeline).get_pipe("proxy_linker")
    assert linker.nil_threshold is None and linker.ranking is not None


def test_what_cannot_be_calibrated_stays_as_it_was(run, pipeline, corpus, tmp_path, monkeypatch):
    before = contents(pipeline)
    for name in (tmp_path / "none", "en_core_sci_sm"):
        assert f"{name}: no folder of a pipeline" in run("calibrate", name, corpus, code=1)

    def full(*paths) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert "No space left" in run("calibrate", pipeline, corpus, code=1)
    assert contents(pipeline) == before
