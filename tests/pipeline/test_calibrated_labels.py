"""The labels that probabilities hold for: kept, saved, and warned of."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_pel.fitting.calibrate import calibrate
from spacy_pel.linking.calibration import Calibration

from ..fitting.calibration_corpus import write_corpus


def linked(nlp: Language, *labels: str) -> Doc:
    """A doc with a mention of each label, linked."""
    doc = Doc(nlp.vocab, words=["MS"] * len(labels))
    doc.ents = [Span(doc, n, n + 1, label) for n, label in enumerate(labels)]
    return nlp.get_pipe("proxy_linker")(doc)


def test_labels_are_counted_and_saved(tiny_nlp: Language, tmp_path: Path) -> None:
    corpus = write_corpus(tiny_nlp, tmp_path / "dev.pubtator")
    counts: dict[str, int] = {}
    for line in corpus.read_text("utf8").splitlines():
        if "\t" in line:
            label = line.split("\t")[4]
            counts[label] = counts.get(label, 0) + 1
    report = calibrate(tiny_nlp, [corpus])
    linker = tiny_nlp.get_pipe("proxy_linker")
    assert linker.calibration.labels == counts and sum(counts.values()) == report.mentions
    assert report.fitted_on == linker.calibration.fitted_on
    tiny_nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").get_pipe("proxy_linker").calibration.labels == counts


def test_a_new_label_is_warned_of_once(
    tiny_nlp: Language, caplog: pytest.LogCaptureFixture
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.calibration = Calibration(4.0, -1.0, labels={"Disease": 1200, "Chemical": 7})
    with caplog.at_level(logging.WARNING):
        doc = linked(tiny_nlp, "DISEASE", "chemical")
        assert not caplog.records
        doc = linked(tiny_nlp, "Procedure", "Disease", "Procedure", "A\x1b[31m")
        linked(tiny_nlp, "Procedure")
    assert all(0 < ent._.kb_probability < 1 for ent in doc.ents)
    (message,) = [record.getMessage() for record in caplog.records]
    assert "fitted on mentions of Disease (1,200), Chemical (7)." in message
    assert r"wrong for mentions of 'A\x1b[31m', 'Procedure'; calibrate on a corpus" in message


def test_labels_of_another_scheme_are_not_warned_of(
    tiny_nlp: Language, caplog: pytest.LogCaptureFixture
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.calibration = Calibration(4.0, -1.0, labels={"T047": 3, "T109": 1})
    with caplog.at_level(logging.WARNING):
        linked(tiny_nlp, "DISEASE", "ENTITY")
    assert not caplog.records


def test_a_pipeline_of_before_says_nothing(
    tiny_nlp: Language, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_nlp.to_disk(tmp_path / "pipeline")
    path = tmp_path / "pipeline" / "proxy_linker" / "cfg"
    cfg = json.loads(path.read_text("utf8"))
    path.write_text(json.dumps({**cfg, "calibration": [4.0, -1.0, 0]}))
    nlp = spacy.load(tmp_path / "pipeline")
    with caplog.at_level(logging.WARNING):
        doc = linked(nlp, "Procedure")
    assert doc.ents[0]._.kb_probability is not None and not caplog.records
    assert nlp.get_pipe("proxy_linker").calibration.labels is None


def test_few_labels_are_shown() -> None:
    labels = {f"T{n:03}": n for n in range(1, 22)}
    shown = Calibration(1.0, 0.0, labels=labels).fitted_on
    assert shown.startswith("T021 (21), T020 (20), ") and shown.endswith(" and 11 more")
