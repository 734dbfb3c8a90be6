"""From calibration to joint links and proposals, on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from spacy.language import Language

from ..fitting.calibration_corpus import write_repeated_corpus


@pytest.fixture
def corpus(tiny_nlp: Language, tmp_path: Path) -> Path:
    return write_repeated_corpus(tiny_nlp, tmp_path)


@pytest.fixture
def pipeline(tiny_folder: Path, tmp_path: Path) -> Path:
    """A pipeline of one's own, to be changed."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "pipeline"))


def test_joint_links_and_proposals(run, pipeline: Path, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "joint.jsonl"
    run_joint = ("link", pipeline, corpus, "-o", output, "--jointly")
    assert "run: python -m spacy pel calibrate PIPELINE DEV --jointly" in run(*run_joint, code=1)
    said = run("calibrate", pipeline, corpus, "--jointly")
    assert "inked jointly" in said and "adjusted Rand index" in said
    assert "All 20 mentions are linked by themselves; joining them" in run(*run_joint)
    assert len(output.read_text("utf8").splitlines()) == 4

    proposals = tmp_path / "proposals.jsonl"
    said = run("discover", pipeline, output, proposals, "--linked")
    records = [json.loads(line) for line in proposals.read_text("utf8").splitlines()]
    assert "Read 20 mentions of 4 documents" in said and f"{len(records)} proposals: " in said
    nil = [m["id"] for line in open(output) for m in json.loads(line)["mentions"]].count("NIL")
    assert sum(record["mentions"] for record in records) <= nil
    assert proposals.with_suffix(".html").is_file()
    assert "end it in .jsonl" in run("discover", pipeline, output, tmp_path / "page.html", code=1)
