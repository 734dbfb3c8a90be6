from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.kb import SemanticType, build_kb

from .examples import ENTITIES


def test_views_are_mappings(tmp_path: Path) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb")
    by_id, by_name = kb.cui_to_entity, kb.alias_to_cuis
    assert dict(by_id) == {
        e.concept_id: (e.concept_id, e.canonical_name, list(e.aliases), list(e.types), e.definition)
        for e in ENTITIES
    }
    assert by_id["OMIM:1"] == by_id["C1"] and "OMIM:1" in by_id and len(by_id) == 4
    assert by_id.get("C4") is None and 3 not in by_id
    assert dict(by_name) == {
        "Mitral stenosis": {"C1"}, "MS": {"C1", "C3"}, "Multiple sclerosis": {"C3"},
        "Disseminated": {"C3"}, "Mass spectrometry": {"C2"}, "Été 日本 🧬": {"C10"},
        "β-catenin": {"C10"},
    }  # fmt: skip
    assert len(by_name) == 7 and "ms" not in by_name
    for view, missing in ((by_id, "C4"), (by_name, "ms")):
        with pytest.raises(KeyError, match=missing):
            view[missing]


def test_types_are_codes_where_there_are_any(tmp_path: Path) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb", types=[SemanticType("Disease", "T047")])
    assert kb.cui_to_entity["C1"].types == ["T047", "Finding"]
    assert kb["C1"].types == ("Disease", "Finding")
