import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_pel.kb import KnowledgeBase
from spacy_pel.models.architectures import encoder_of
from spacy_pel.package import diagnose as checks
from spacy_pel.package.diagnose import BROKEN, NOTE, OK, Finding, diagnose


def of(subject: str, findings) -> list[Finding]:
    return [finding for finding in findings if finding.subject == subject]


def test_a_healthy_pipeline(tiny_folder: Path, tiny_kb: Path) -> None:
    findings = list(diagnose(str(tiny_folder)))
    assert [finding for finding in findings if finding.state == BROKEN] == []
    states = {finding.subject: finding.state for finding in findings}
    for subject in ("faiss", "kb", "vectors", "fit", "pipeline"):
        assert states[subject] == OK, of(subject, findings)
    (calibration,) = of("calibration", findings)
    assert calibration.state == NOTE
    assert calibration.remedy == "python -m spacy pel calibrate PIPELINE DEV"
    assert f"{tiny_kb}: 7 entities" in of("kb", findings)[0].found


def test_vectors_of_another_encoder(tiny_nlp: Language, tmp_path: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    for parameter in encoder_of(linker.model.layers[0]).parameters():
        parameter.data += 0.1
    tiny_nlp.to_disk(tmp_path / "other")
    (fit,) = of("fit", diagnose(str(tmp_path / "other")))
    assert fit.state == BROKEN and "made by another encoder" in fit.found
    assert fit.remedy.startswith("run: python -m spacy pel kb embed")


def test_a_pipeline_that_finds_no_mention_or_is_none(tiny_nlp: Language, tmp_path: Path) -> None:
    tiny_nlp.remove_pipe("entity_ruler")
    tiny_nlp.to_disk(tmp_path / "pipeline")
    (mentions,) = of("mentions", diagnose(str(tmp_path / "pipeline")))
    assert mentions.state == NOTE and "kb_matcher" in mentions.remedy
    meta = tmp_path / "pipeline" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "spacy_version": ">=99"}))
    told = [finding.found for finding in of("pipeline", diagnose(str(tmp_path / "pipeline")))]
    assert any(found.startswith("saved for spaCy >=99, but ") for found in told)
    spacy.blank("en").to_disk(tmp_path / "blank")
    for name, found in (("blank", "no linker"), ("none", "cannot be loaded")):
        (broken,) = of("pipeline", diagnose(str(tmp_path / name)))
        assert broken.state == BROKEN and found in broken.found and broken.remedy


def test_kbs_that_want_something(bare_kb: KnowledgeBase) -> None:
    (bare_kb.path / ".partial-x").mkdir()
    none, interrupted = of("vectors", diagnose(kb=bare_kb.path))
    assert none.state == BROKEN and "was interrupted" in interrupted.found
    with closing(sqlite3.connect(bare_kb.path / "kb.sqlite")) as database, database:
        newer = "replace(value, '\"schema_version\": ', '\"schema_version\": 9')"
        database.execute(f"UPDATE setting SET value = {newer} WHERE name = 'kb'")
    (finding,) = checks.kb_findings(bare_kb.path)
    assert finding.state == BROKEN and "schema version 9" in finding.found
    assert "pel kb build" in finding.remedy


@pytest.mark.parametrize(
    "versions, found",
    [
        ({"faiss-cpu": None}, "not installed"),
        ({"faiss-gpu": "1.14.3"}, "which overwrite each other"),
    ],
)
def test_one_faiss_must_be_there(monkeypatch, versions: dict, found: str) -> None:
    monkeypatch.setattr(checks, "_version", {"faiss-cpu": "1.14.3", **versions}.get)
    (finding,) = of("faiss", diagnose())
    assert finding.state == BROKEN and found in finding.found
    assert finding.remedy.startswith("pip ")
