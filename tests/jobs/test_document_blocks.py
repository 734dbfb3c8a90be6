"""Which documents a block holds, and what it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.documents import open_documents
from spacy_pel.jobs import document_blocks as blocks
from spacy_pel.jobs.document_blocks import blocks_of, file_groups


def groups(path: Path) -> list[blocks.FileGroup]:
    return list(file_groups(open_documents(str(path)).files, str(path)))


def test_small_files_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BYTES_PER_GROUP", 10)
    for name, size in {"a": 4, "b": 6, "c": 1, "d": 99, "e/f": 2}.items():
        (tmp_path / f"{name}.txt").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text("x" * size)
    found = [(group.name, [file.name for file in group.files]) for group in groups(tmp_path)]
    assert found == [
        ("a.txt", ["a.txt", "b.txt"]),
        ("c.txt", ["c.txt"]),
        ("d.txt", ["d.txt"]),
        ("e/f.txt", ["e/f.txt"]),
    ]
    assert groups(tmp_path / "e" / "f.txt")[0].name == "f.txt"


def test_blocks_are_named_for_their_first_document(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("".join(f"Case {n}.\n" for n in range(1, 6)))
    (group,) = groups(tmp_path / "notes.txt")
    found = list(blocks_of(group, 2, 1_000))
    assert [(block.name, block.first, len(block.records)) for block in found] == [
        ("notes.txt-00000001", 1, 2),
        ("notes.txt-00000003", 3, 2),
        ("notes.txt-00000005", 5, 1),
    ]
    assert sum(block.n_bytes for block in found) == (tmp_path / "notes.txt").stat().st_size
    assert len({block.digest for block in found}) == 3
    assert len(list(blocks_of(group, 1_000, 1))) == 5
