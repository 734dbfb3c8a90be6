from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import ReadOptions, jsonl_records
from spacy_pel.kb.readers.jsonl_records import read_jsonl

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
GOOD = json.dumps(FULL, ensure_ascii=False)


@pytest.mark.parametrize("name", ["kb.jsonl", "kb.jsonl.gz"])
def test_reads_the_schema_and_ignores_the_rest(tmp_path: Path, name: str) -> None:
    text = "\ufeff" + GOOD + '\r\n\n{"concept_id": "C2", "canonical_name": "Rash", "aliases": null}'
    opener = gzip.open if name.endswith(".gz") else open
    with opener(tmp_path / name, "wt", encoding="utf-8", newline="") as file:
        file.write(text)
    assert list(read_jsonl(tmp_path / name, ReadOptions()).entities) == [
        Entity(
            "C1",
            "Fever",
            ("Pyrexia", "发烧"),
            ("Finding",),
            "High\u2028temperature.",
            ("OMIM:1",),
            ("C2",),
            ("C0",),
            ("MSH:D1",),
            ("MSH",),
        ),
        Entity("C2", "Rash"),
    ]


@pytest.mark.parametrize(
    "line, fault",
    [
        ('{"concept_id": "C1"', "bad JSON"),
        ("[" * 100_000, "bad JSON"),
        ("[]", "not a JSON object"),
        (json.dumps({"canonical_name": "x"}), "'concept_id' is missing"),
        (json.dumps({**FULL, "concept_id": None}), "'concept_id' is missing"),
        (json.dumps({**FULL, "concept_id": " "}), "'concept_id' is empty"),
        (json.dumps({**FULL, "concept_id": 7}), "'concept_id' is not a string"),
        (json.dumps({"concept_id": "C1"}), "'canonical_name' is missing"),
        (json.dumps({**FULL, "canonical_name": ""}), "'canonical_name' is empty"),
        (json.dumps({**FULL, "aliases": "Pyrexia"}), "'aliases' is not a list of strings"),
        (json.dumps({**FULL, "types": [1]}), "'types' is not a list of strings"),
        (json.dumps({**FULL, "alt_ids": {"a": 1}}), "'alt_ids' is not a list of strings"),
        (json.dumps({**FULL, "definition": ["x"]}), "'definition' is not a string or null"),
        (json.dumps({**FULL, "concept_id": "C\0"}), "the id .* contains control characters"),
        (json.dumps({**FULL, "concept_id": "C" * 1001}), "the id .* has 1,001 characters"),
        (json.dumps({**FULL, "definition": "x" * 1_000_001}), "a text of .* has 1,000,001 char"),
        (json.dumps({**FULL, "concept_id": " C1"}), "repeats the concept_id 'C1' of .*, line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "kb.jsonl"
    path.write_text(f"{GOOD}\n{line}\n", encoding="utf-8")
    with pytest.raises(PelError, match=rf"kb\.jsonl, line 2: {fault}") as caught:
        list(read_jsonl(path, ReadOptions()).entities)
    assert "\n" not in str(caught.value)


def test_ids_of_the_same_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_records, "hash", lambda text: 0, raising=False)
    ids = [f"C{number}" for number in range(3)]
    path = tmp_path / "kb.jsonl"
    lines = [json.dumps({"concept_id": id, "canonical_name": "x"}) for id in ids]
    path.write_text("\n".join(lines))
    assert [entity.concept_id for entity in read_jsonl(path, ReadOptions()).entities] == ids


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "kb.jsonl"
    path.write_bytes(b'{"concept_id": "\xff"}\n')
    with pytest.raises(PelError, match=r"kb\.jsonl, line 1: not UTF-8"):
        list(read_jsonl(path, ReadOptions()).entities)


@pytest.mark.parametrize("cut", [slice(0, -12), slice(4, None)])
def test_a_damaged_gzip_is_named(tmp_path: Path, cut: slice) -> None:
    path = tmp_path / "kb.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD.encode())[cut])
    with pytest.raises(PelError, match=r"kb\.jsonl\.gz: damaged gzip"):
        list(read_jsonl(path, ReadOptions()).entities)
