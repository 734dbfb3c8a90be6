from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.records.semantic_types import SemanticType

from ..examples import ENTITIES


def test_a_kb_is_a_source(tmp_path: Path) -> None:
    types = [SemanticType("Disease", "T1", "B2")]
    built = build_kb(ENTITIES, tmp_path / "kb", types=types, sources=["a.obo (1)", "b.obo"])
    source = open_source(tmp_path / "kb")
    assert source.version == "a.obo (1), b.obo"
    assert SemanticType("Disease", "T1", "B2") in source.types
    again = build_kb(source.entities, tmp_path / "again", types=source.types)
    assert list(again) == list(built) == list(KnowledgeBase.open(tmp_path / "kb"))


def test_a_damaged_kb_is_named(tmp_path: Path) -> None:
    build_kb(ENTITIES, tmp_path / "kb")
    next((tmp_path / "kb").glob("entities-*")).unlink()
    with pytest.raises(PelError, match="missing"):
        open_source(tmp_path / "kb")
