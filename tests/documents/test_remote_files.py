"""Documents behind URLs, here in fsspec's memory."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError

from .examples import read


@pytest.fixture
def store() -> Iterator[str]:
    system = fsspec.filesystem("memory")
    system.pipe("/notes/a.jsonl.gz", gzip.compress(b'{"text": "One", "id": 1}\n{"text": "Two"}\n'))
    system.pipe("/notes/sub/b.txt", b"A whole\nnote.")
    system.pipe("/notes/c.pdf", b"%")
    yield "memory://notes"
    system.rm("/notes", recursive=True)


def test_a_folder_and_a_file(store: str) -> None:
    source = open_documents(store)
    docs = [(r.where, r.document().text, r.document().id) for r in source]
    assert docs == [
        ("a.jsonl.gz, line 1", "One", 1),
        ("a.jsonl.gz, line 2", "Two", None),
        ("sub/b.txt", "A whole\nnote.", "sub/b"),
    ]
    assert source.position == source.total > 0
    assert [doc.text for doc in read(f"{store}/a.jsonl.gz")] == ["One", "Two"]


def test_a_local_url_is_read_as_its_path(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One\nTwo\n")
    assert [r.data for r in open_documents(f"file://{tmp_path}/a.txt")] == [b"One", b"Two"]


@pytest.mark.parametrize(
    "url, problem",
    [
        ("memory://none", "memory://none: no such file"),
        ("nonsense://a", "nonsense://a: cannot be read .*nonsense"),
        ("memory://notes/c.pdf", "c.pdf: unknown kind of file"),
    ],
)
def test_what_cannot_be_read(store: str, url: str, problem: str) -> None:
    with pytest.raises(PelError, match=problem):
        open_documents(url)
