import gzip
import io
from pathlib import Path

import pytest

from spacy_pel.corpora import open_documents
from spacy_pel.errors import PelError

from ..conftest import write_text
from .formats.examples import NLP, read


def test_text_is_a_document_a_line(tmp_path: Path) -> None:
    for name in ("docs.txt", "docs.txt.gz"):
        path = write_text(tmp_path / name, "\ufeffÉté 🧬 \r\n\n  \nTwo\u2028lines.")
        assert [doc.text for doc in read(path)] == ["Été 🧬 ", "Two\u2028lines."]


def test_a_folder_is_read_by_name_and_text_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "a.jsonl.gz", '{"text": "One", "id": 1}\n{"text": "Two"}')
    for name in ("b/note.txt", "c.pdf", ".hidden.txt"):
        write_text(tmp_path / name, "A whole\nnote.")
    source = open_documents(tmp_path)
    found = [(source.position, r.where, r.document().text, r.document().id) for r in source]
    assert [row[1:] for row in found] == [
        ("a.jsonl.gz, line 1", "One", 1),
        ("a.jsonl.gz, line 2", "Two", None),
        ("b/note.txt", "A whole\nnote.", "b/note"),
    ]
    assert found == sorted(found) and found[0][0] < source.position == source.total
    assert [doc.text for doc in read(tmp_path / "a.jsonl.gz")] == ["One", "Two"]


def test_stdin_is_text_unless_told_otherwise(monkeypatch) -> None:
    def texts(data: bytes, format: str | None = None) -> list[str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return [record.doc(NLP, None).text for record in open_documents("-", format)]

    assert texts(b"One\n\nTwo\n") == ["One", "Two"]
    assert texts(b'{"text": "One"}\n', "jsonl") == ["One"]
    assert open_documents("-").total is None


def test_a_damaged_file_is_one_bad_document(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(b"%d line\n" % number for number in range(100_000)))
    (tmp_path / "a.jsonl.gz").write_bytes(data[: len(data) // 2])
    (tmp_path / "b.jsonl").write_text('{"text": "fine"}\n')
    records = list(open_documents(str(tmp_path)))
    assert [record for record in records if isinstance(record.data, PelError)] == [records[-2]]
    assert records[-2].where == "a.jsonl.gz"
    with pytest.raises(PelError, match=r"a.jsonl.gz: damaged gzip after line \d+; fetch it again"):
        records[-2].doc(NLP, None)
    assert records[-1].doc(NLP, None).text == "fine"


@pytest.mark.parametrize(
    "name, format, message",
    [
        ("no.txt", None, "no.txt: no such file; give a file .txt, .jsonl"),
        ("a.pdf", None, "a.pdf: unknown kind of file; name it with --from, or give a file"),
        ("a.pdf", "pdf", 'unknown format "pdf"; choose one of: text, whole-text, jsonl'),
        ("", None, "no readable file in it"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(tmp_path, name, format, message) -> None:
    (tmp_path / "a.pdf").touch()
    with pytest.raises(PelError, match=message):
        open_documents(tmp_path / name, format)
