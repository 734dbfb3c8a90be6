"""kb fetch: a named ontology becomes a file that kb build takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.readers.fetch_ontology import ONTOLOGIES


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ontology as a file; urllib reads it as it reads a page."""
    path = tmp_path / "theirs" / "mondo.obo"
    path.parent.mkdir()
    path.write_text("data-version: 2026\n\n[Term]\nid: MONDO:1\nname: gout\n")
    monkeypatch.setitem(ONTOLOGIES, "mondo", ("diseases", path.as_uri()))
    return path


def test_fetch_and_build(run, published: Path, tmp_path: Path) -> None:
    output = run("kb", "fetch", "mondo", "--to", tmp_path / "mine")
    path = tmp_path / "mine" / "mondo.obo"
    assert path.read_bytes() == published.read_bytes()
    assert "mondo.obo: 1 entities of 2026" in output and f"kb build {path} KB" in output
    run("kb", "build", path, tmp_path / "kb")
    assert [entity.canonical_name for entity in KnowledgeBase.open(tmp_path / "kb")] == ["gout"]


def test_help_names_the_ontologies_and_another_name_is_refused(run, tmp_path: Path) -> None:
    output = run("kb", "fetch", "--help")
    assert all(f"{name} {what}" in output for name, (what, _) in ONTOLOGIES.items())
    assert "no ontology 'x' is known; choose of: mondo" in run("kb", "fetch", "x", code=1)
