"""Calibration: what is found is stored in the pipeline, in place, or nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_pel.fitting.calibrate import calibrate
from spacy_pel.fitting.evaluate import evaluate

from ..fitting.calibration_corpus import pubtator, write_corpus


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    """A corpus for calibration, see ``write_corpus``."""
    return write_corpus(tiny_nlp, tmp_path / "dev.pubtator")


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


def test_what_is_no_pipeline_of_ones_own(run, corpus: Path, pipeline: Path, tmp_path: Path) -> None:
    for name in (tmp_path / "none", "en_core_sci_sm"):
        assert f"{name}: no folder of a pipeline" in run("calibrate", name, corpus, code=1)
    arguments = ("calibrate", pipeline, corpus, "--component", "entity_ruler")
    assert 'no linker "entity_ruler"' in run(*arguments, code=1)


def test_an_interruption_leaves_the_pipeline_as_it_was(
    run, pipeline: Path, corpus: Path, monkeypatch
) -> None:
    before = contents(pipeline)

    def full(*paths) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert "No space left" in run("calibrate", pipeline, corpus, code=1)
    assert contents(pipeline) == before
