"""``pel calibrate --names``: what an exact name is worth, fitted and stored."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language

from spacy_pel.evaluation.feature_weight import feature_weight
from spacy_pel.fitting.calibrate import calibrate
from spacy_pel.fitting.evaluate import evaluate
from spacy_pel.kb.records.names import normalised

TEXT = "Aspirin relieves headache and MS is not measured in the kidney with cephalgia of MS."
GOLDS = {"Aspirin": "C05", "headache": "C06", "MS": "C01", "kidney": "C07", "cephalgia": "C03"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "dev.pubtator"
    lines = [f"1|t|{TEXT}", "1|a|"]
    for mention, id in GOLDS.items():
        start = TEXT.index(mention)
        lines.append(f"1\t{start}\t{start + len(mention)}\t{mention}\tTERM\t{id}")
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def linked(nlp: Language):
    """Scores, name matches and right candidates [n, k], from a doc linked without names."""
    doc = nlp.make_doc(TEXT)
    doc.ents = [doc.char_span(TEXT.index(m), TEXT.index(m) + len(m), label="TERM") for m in GOLDS]
    kb = nlp.get_pipe("proxy_linker").kb
    rows = []
    for ent in nlp.get_pipe("proxy_linker")(doc).ents:
        for candidate in ent._.kb_candidates:
            names = map(normalised, kb[candidate["id"]].names)
            right = candidate["id"] == GOLDS[ent.text]
            rows.append((candidate["score"], normalised(ent.text) in names, right))
    scores, matches, right = np.array(rows).T.reshape(3, len(GOLDS), -1)
    return scores, matches.astype(bool), right.astype(bool)


def test_the_weight_is_that_of_the_candidates(tiny_nlp: Language, corpus: Path) -> None:
    expected = feature_weight(*linked(tiny_nlp))
    calibrate(tiny_nlp, [corpus], names=True)
    found = tiny_nlp.get_pipe("proxy_linker").name_weight
    if expected is None:
        assert found is None
    else:
        assert found == pytest.approx((expected, 0), rel=1e-4)


def test_it_is_stored_printed_and_kept_until_it_is_dropped(
    run, tiny_folder: Path, tmp_path: Path, corpus: Path, monkeypatch
) -> None:
    monkeypatch.setattr("spacy_pel.fitting.calibrate.feature_weight", lambda *table: 3.0)
    pipeline = shutil.copytree(tiny_folder, tmp_path / "pipeline")
    output = run("calibrate", pipeline, corpus, "--names")
    assert "An exact name adds 3.0000 to the score" in output
    nlp = spacy.load(pipeline)
    assert nlp.get_pipe("proxy_linker").name_weight == (3.0, 0)
    # All names that are asked for are names of their gold entities but one.
    metrics = evaluate(nlp, [corpus])
    assert metrics["recall@5"]["in_kb"] >= 0.8
    # The calibration is that of the scores with names.
    figures = calibrate(nlp, [corpus], names=True)
    error = figures.error_after
    assert metrics["expected_calibration_error"] == pytest.approx(error)
    assert "An exact name adds 3.0000" in run("calibrate", pipeline, corpus)
    run("calibrate", pipeline, corpus, "--no-names")
    assert spacy.load(pipeline).get_pipe("proxy_linker").name_weight is None
