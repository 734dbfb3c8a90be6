from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb, open_source
from spacy_pel.kb.readers import detected_format
from spacy_pel.kb.readers.zeshel_dictionary import DEFINITION_WORDS

LONG = " ".join(["word"] * (DEFINITION_WORDS + 9))
DOCUMENTS = [
    {"document_id": "0A", "title": "Rose", "text": "Rose Rose is a plant ."},
    {"document_id": "0B", "title": "Tulip ( flower )", "text": "Grows from a bulb ."},
    {"document_id": "0C", "title": "Weed", "text": "Weed"},
    {"document_id": "0D", "title": "Vine", "text": f"Vine {LONG}"},
]
LINES = "".join(json.dumps(document) + "\n" for document in DOCUMENTS)


@pytest.mark.parametrize("name", ["garden.json", "garden.json.gz"])
def test_documents_become_entities(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES.encode()) if name.endswith("gz") else LINES.encode())
    assert detected_format(path) == "zeshel"
    assert list(open_source(path).entities) == [
        Entity("0A", "Rose", definition="Rose is a plant .", sources=("garden",)),
        Entity("0B", "Tulip ( flower )", definition="Grows from a bulb .", sources=("garden",)),
        Entity("0C", "Weed", sources=("garden",)),
        Entity("0D", "Vine", definition=LONG[: 5 * DEFINITION_WORDS - 1], sources=("garden",)),
    ]


def test_it_is_a_kb_of_a_world(tmp_path: Path) -> None:
    (tmp_path / "garden.json").write_text(LINES, encoding="utf8")
    kb = build_kb(open_source(tmp_path / "garden.json").entities, tmp_path / "kb")
    assert kb["0A"].canonical_name == "Rose" and kb.of_sources("garden").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "line 2: bad JSON .*; correct the line"),
        ('{"document_id": "1", "title": "x"}', "line 2: 'text' is no text, or blank; give"),
        ('{"document_id": 1, "title": "x", "text": "y"}', "line 2: 'document_id' is no text"),
        ('{"document_id": "1", "title": " ", "text": "y"}', "line 2: 'title' is no text, or blank"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, fault: str) -> None:
    (tmp_path / "w.json").write_text(LINES.splitlines()[0] + "\n" + line + "\n", encoding="utf8")
    with pytest.raises(PelError, match=f"w.json, {fault}"):
        list(open_source(tmp_path / "w.json").entities)
