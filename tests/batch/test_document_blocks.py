from pathlib import Path

import pytest

from spacy_pel.batch import document_blocks as blocks
from spacy_pel.batch.document_blocks import blocks_by_file
from spacy_pel.corpora import open_documents

from ..conftest import write_text


def test_small_files_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BYTES_PER_GROUP", 10)
    for name, size in {"a": 4, "b": 6, "c": 1, "d": 99, "e/f": 2}.items():
        write_text(tmp_path / f"{name}.txt", "x" * size)
    for path, expected in (
        (tmp_path, {"a.txt": 2, "c.txt": 1, "d.txt": 1, "e/f.txt": 1}),
        (tmp_path / "e" / "f.txt", {"f.txt": 1}),
    ):
        found = blocks_by_file(open_documents(str(path)), str(path), 100, 1_000)
        assert [(block.name, len(block.records)) for block in found] == [
            (f"{name}-00000001", n) for name, n in expected.items()
        ]
