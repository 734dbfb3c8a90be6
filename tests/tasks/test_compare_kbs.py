"""What changed between two KBs, against the entities that were changed by hand."""

from __future__ import annotations

import json
from pathlib import Path

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.tasks.compare_kbs import compare_kbs

from ..conftest import ENTITIES


def test_changes_are_counted_and_written(tiny_kb: Path, tmp_path: Path) -> None:
    changed = ENTITIES[6]._replace(aliases=("ren",), definition="A text.")
    new = [*ENTITIES[2:6], changed, *(Entity(f"D{n}", f"new {n}") for n in range(4))]
    folder = build_kb(new, tmp_path / "new").path
    found = compare_kbs(tiny_kb, folder, tmp_path / "changes.jsonl", n_ids=3)
    assert found.kinds == {"added": 4, "removed": 2, "changed": 1}
    assert found.fields == {"aliases": 1, "definition": 1}
    assert found.first_ids == {
        "removed": ["C01", "C02"], "changed": ["C07"], "added": ["D0", "D1", "D2"]
    }  # fmt: skip
    assert found.is_not_embedded
    lines = (tmp_path / "changes.jsonl").read_text("utf8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == "C01 C02 C07 D0 D1 D2 D3".split()


def test_equal_kbs(bare_kb: KnowledgeBase, tiny_kb: Path) -> None:
    found = compare_kbs(bare_kb.path, tiny_kb)
    assert (found.kinds, found.fields, found.first_ids) == ({}, {}, {})
    assert not found.is_not_embedded
