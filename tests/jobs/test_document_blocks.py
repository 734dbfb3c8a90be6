"""Which documents a block holds, and what it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.documents import open_documents
from spacy_pel.jobs import document_blocks as blocks
from spacy_pel.jobs.document_blocks import blocks_by_file, document_blocks


def names(path: Path) -> list[tuple[str, int]]:
    found = blocks_by_file(open_documents(str(path)), str(path), 100, 1_000)
    return [(block.name, len(block.records)) for block in found]


def test_small_files_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BYTES_PER_GROUP", 10)
    for name, size in {"a": 4, "b": 6, "c": 1, "d": 99, "e/f": 2}.items():
        (tmp_path / f"{name}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text("x" * size)
    assert names(tmp_path) == [
        ("a.txt-00000001", 2),
        ("c.txt-00000001", 1),
        ("d.txt-00000001", 1),
        ("e/f.txt-00000001", 1),
    ]
    assert names(tmp_path / "e" / "f.txt") == [("f.txt-00000001", 1)]


def test_blocks_are_named_for_their_first_document(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("".join(f"Case {n}.\n" for n in range(1, 6)))
    source = open_documents(str(tmp_path / "notes.txt"))
    found = list(document_blocks(source, 2, 1_000, "notes.txt-"))
    assert [(block.name, block.first, len(block.records)) for block in found] == [
        ("notes.txt-00000001", 1, 2),
        ("notes.txt-00000003", 3, 2),
        ("notes.txt-00000005", 5, 1),
    ]
    assert sum(block.n_bytes for block in found) == (tmp_path / "notes.txt").stat().st_size
    assert len({block.digest for block in found}) == 3
    assert len(list(document_blocks(source, 1_000, 1))) == 5
