"""Which documents a block holds, and what it is called."""

from pathlib import Path

import pytest

from spacy_pel.batch import document_blocks as blocks
from spacy_pel.batch.document_blocks import blocks_by_file
from spacy_pel.corpora import open_documents


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
