import json
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.readers.build_from_sources import of_types
from spacy_pel.kb.records.semantic_types import SemanticType

from ..living import ENTITIES


def test_what_cannot_be_told_or_found(tmp_path: Path) -> None:
    (tmp_path / "x.obo.json").write_text('{"@context": {}, "@graph": []}')
    for path in (tmp_path / "x.obo.json", tmp_path):
        with pytest.raises(PelError, match="cannot tell the format; .*jsonl.*rrf"):
            open_source(path)
    with pytest.raises(PelError, match="unknown format 'csvw'; choose one of "):
        open_source(tmp_path, format="csvw")
    with pytest.raises(PelError, match="absent: no such file"):
        open_source(tmp_path / "absent")
    with pytest.raises(PelError, match="cannot be read"):
        list(open_source(tmp_path, format="jsonl").entities)


FULL = {
    "concept_id": "C1",
    "canonical_name": "Fever",
    "aliases": ["Pyrexia", "发烧"],
    "types": ["Finding"],
    "definition": "High\u2028temperature.",
    "alt_ids": ["OMIM:1"],
    "parents": ["C2"],
    "retired_ids": ["C0"],
    "xrefs": ["MSH:D1"],
    "sources": ["MSH"],
    "tree_numbers": [7],
}


def test_reads_the_schema_and_ignores_the_rest(tmp_path: Path) -> None:
    text = "\ufeff" + json.dumps(FULL, ensure_ascii=False)
    text += '\r\n\n{"concept_id": "C2", "canonical_name": "Rash", "aliases": null}'
    (tmp_path / "kb.jsonl").write_bytes(text.encode())
    values = [tuple(v) if isinstance(v, list) else v for v in FULL.values()][:-1]
    expected = [Entity(*values), Entity("C2", "Rash")]
    assert list(open_source(tmp_path / "kb.jsonl").entities) == expected


def test_a_kb_is_a_source(tmp_path: Path) -> None:
    types = [SemanticType("Disease", "T1", "B2")]
    built = build_kb(ENTITIES, tmp_path / "kb", types=types, sources=["a.obo (1)", "b.obo"])
    source = open_source(tmp_path / "kb")
    assert source.version == "a.obo (1), b.obo"
    assert SemanticType("Disease", "T1", "B2") in source.types
    again = build_kb(source.entities, tmp_path / "again", types=source.types)
    assert list(again) == list(built) == list(KnowledgeBase.open(tmp_path / "kb"))


TYPES = [
    SemanticType("Organism", "T001", "A1.1"),
    SemanticType("Fish", "T013", "A1.1.3"),
    SemanticType("Food", "T168", "A1.4"),
]
KINDS = {"cod": ("Fish", "Food"), "shark": ("Fish",), "bread": ("Food",), "rain": ("weather",)}
TYPED = [Entity(name, name, types=types) for name, types in {**KINDS, "thing": ()}.items()]


@pytest.mark.parametrize(
    "kept, left_out, names",
    [
        ([], [], "cod shark bread rain thing"),
        (["Organism"], [], "cod shark"),
        (["Food", "weather"], [], "cod bread rain"),
        (["Food"], ["Fish"], "bread"),
        ([], ["T001", ""], "bread rain"),
        ([""], [], "thing"),
    ],
)
def test_who_is_kept(kept: list[str], left_out: list[str], names: str) -> None:
    found = of_types(iter(TYPED), TYPES, kept, left_out)
    assert [entity.concept_id for entity in found] == names.split()


def test_a_type_that_no_entity_has() -> None:
    with pytest.raises(PelError, match="the type 'Bird'; choose one of: Fish, Food, weather"):
        list(of_types(TYPED, TYPES, ["Bird"]))
