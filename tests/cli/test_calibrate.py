"""Calibration: what is found is stored in the pipeline, in place, or nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.tasks.calibrate import calibrate
from spacy_pel.tasks.evaluate import evaluate

TEXT = "Aspirin relieves headache and MS is not measured in the kidney of mice."
MENTIONS = [  # two in the KB whose best candidate is right, one where it is not, two NIL
    ("Aspirin", "C05"),
    ("headache", "C06"),
    ("MS", "C02"),
    ("kidney", "C98"),
    ("measured", "-1"),
]


def pubtator(mentions) -> str:
    lines = [f"1|t|{TEXT}", "1|a|"]
    for mention, id in mentions:
        start = TEXT.index(mention)
        lines.append(f"1\t{start}\t{start + len(mention)}\t{mention}\tTERM\t{id}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    """MENTIONS, the first and the third with the ids that make the linker right, and wrong."""
    doc = tiny_nlp.make_doc(TEXT)
    spans = [
        doc.char_span(TEXT.index(mention), TEXT.index(mention) + len(mention), label="TERM")
        for mention, _ in MENTIONS
    ]
    doc.ents = spans
    with tiny_nlp.select_pipes(enable="proxy_linker"):
        best = {ent.text: ent._.kb_candidates for ent in tiny_nlp(doc).ents}
    golds = dict(MENTIONS)
    golds["Aspirin"], golds["headache"] = best["Aspirin"][0]["id"], best["headache"][0]["id"]
    golds["MS"] = best["MS"][1]["id"]
    path = tmp_path / "dev.pubtator"
    path.write_text(pubtator(golds.items()), encoding="utf8")
    return path


@pytest.fixture
def pipeline(tiny_folder: Path, tmp_path: Path) -> Path:
    """A pipeline of one's own, to be changed."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "pipeline"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_only_the_settings_change(run, pipeline: Path, corpus: Path, tmp_path: Path) -> None:
    before = contents(pipeline)
    output = run("calibrate", pipeline, corpus)
    after = contents(pipeline)
    assert set(after) == set(before)
    assert [n for n in after if after[n] != before[n]] == ["proxy_linker/cfg"]

    cfg = json.loads(after["proxy_linker/cfg"])
    linker = spacy.load(pipeline).get_pipe("proxy_linker")
    assert linker.nil_threshold == cfg["nil_threshold"]
    assert list(linker.calibration) == cfg["calibration"]
    assert f"NIL below a score of {linker.nil_threshold:.4f}" in output
    assert "NIL: 2 mentions; average precision" in output
    assert "Expected calibration error:" in output and "on 5 mentions" in output

    # The pipeline, evaluated on the same mentions, has the figures that were promised.
    figures = calibrate(spacy.load(pipeline), [corpus])
    metrics = evaluate(spacy.load(pipeline), [corpus])
    assert metrics["nil"] == figures.nil
    error = figures.error_after
    assert metrics["expected_calibration_error"] == pytest.approx(error)


def test_the_threshold_has_the_best_f1(tiny_nlp: Language, corpus: Path) -> None:
    figures = calibrate(tiny_nlp, [corpus])
    linker = tiny_nlp.get_pipe("proxy_linker")
    found = linker.nil_threshold
    scores = []
    for threshold in [n / 50 for n in range(-50, 51)] + [found]:
        linker.nil_threshold = threshold
        scores.append(evaluate(tiny_nlp, [corpus])["nil"]["f1"])
    assert scores[-1] == max(scores) == figures.nil["f1"] > 0


def test_calibrating_again_gives_the_same(tiny_nlp: Language, corpus: Path) -> None:
    first = calibrate(tiny_nlp, [corpus])
    linker = tiny_nlp.get_pipe("proxy_linker")
    settings = dict(linker.cfg)
    assert calibrate(tiny_nlp, [corpus]) == first
    assert linker.cfg == settings


def test_without_nil_mentions_there_is_no_threshold(run, pipeline: Path, corpus: Path) -> None:
    lines = corpus.read_text("utf8").splitlines()
    corpus.write_text("\n".join(lines[:5]) + "\n", encoding="utf8")
    output = run("calibrate", pipeline, corpus)
    assert "No mention is NIL: nothing to tune a threshold on, and none is set" in output
    linker = spacy.load(pipeline).get_pipe("proxy_linker")
    assert linker.nil_threshold is None and linker.calibration is not None


@pytest.mark.parametrize(
    ("mentions", "message"),
    [
        ([("MS", "-1"), ("kidney", "-1")], "all mentions are NIL; give a corpus with entities"),
        ([("MS", "D1"), ("kidney", "D2")], "none of the 2 gold ids, such as D1, is in"),
        ([], "no mentions; give a corpus that has some"),
    ],
)
def test_a_corpus_that_says_nothing(run, pipeline: Path, corpus: Path, mentions, message) -> None:
    before = contents(pipeline)
    corpus.write_text(pubtator(mentions), encoding="utf8")
    assert f"{corpus}: {message}" in run("calibrate", pipeline, corpus, code=1)
    assert contents(pipeline) == before


@pytest.mark.parametrize(("kept", "right"), [(["Aspirin", "headache"], 2), (["MS"], 0)])
def test_best_candidates_all_right_or_all_wrong(
    run, pipeline: Path, corpus: Path, kept: list[str], right: int
) -> None:
    before = contents(pipeline)
    lines = corpus.read_text("utf8").splitlines()
    kept_lines = [line for line in lines[2:] if line.split("\t")[3] in kept]
    corpus.write_text("\n".join([*lines[:2], *kept_lines]) + "\n", encoding="utf8")
    message = f"of {len(kept)} best candidates {right} are right"
    assert message in run("calibrate", pipeline, corpus, code=1)
    assert contents(pipeline) == before


def test_what_is_no_pipeline_of_ones_own(run, corpus: Path, pipeline: Path, tmp_path: Path) -> None:
    for name in (tmp_path / "none", "en_core_sci_sm"):
        assert f"{name}: no folder of a pipeline" in run("calibrate", name, corpus, code=1)
    arguments = ("calibrate", pipeline, corpus, "--component", "entity_ruler")
    assert 'no linker "entity_ruler"' in run(*arguments, code=1)


def test_another_kb_without_vectors(run, pipeline: Path, corpus: Path, bare_kb) -> None:
    assert "has no vectors" in run("calibrate", pipeline, corpus, "--kb", bare_kb.path, code=1)


def test_an_interruption_leaves_the_pipeline_as_it_was(
    run, pipeline: Path, corpus: Path, monkeypatch
) -> None:
    before = contents(pipeline)

    def full(*paths) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert "No space left" in run("calibrate", pipeline, corpus, code=1)
    assert contents(pipeline) == before


def test_a_failure_leaves_the_linker_as_it_was(tiny_nlp: Language, corpus: Path) -> None:
    calibrate(tiny_nlp, [corpus])
    linker = tiny_nlp.get_pipe("proxy_linker")
    settings = dict(linker.cfg)
    corpus.write_text(pubtator([("MS", "-1")]), encoding="utf8")
    with pytest.raises(PelError, match="all mentions are NIL"):
        calibrate(tiny_nlp, [corpus])
    assert linker.cfg == settings
