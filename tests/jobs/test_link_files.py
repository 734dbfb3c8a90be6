"""Files are linked by a plain function, which tells how far it has come."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.jobs.document_blocks import LinkProgress
from spacy_pel.jobs.link import link_files
from spacy_pel.jobs.link_docs import Linking, link_documents

TEXTS = [f"Case {n}: the patient has MS." for n in range(5)]


class Told(LinkProgress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.bytes = 0.0
        self.lines: list[str] = []

    def started(self, n_bytes: int | None) -> None:
        self.total = n_bytes

    def passed_over(self, documents: int, n_bytes: int) -> None:
        self.bytes += n_bytes

    def linked(self, n_bytes: float) -> None:
        self.bytes += n_bytes

    def taken_back(self, documents: int, n_bytes: float) -> None:
        self.bytes -= n_bytes

    def say(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five documents, two of which make a part."""
    monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 2)
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf8")
    return path


def test_a_file_and_a_stream_hold_what_docs_give(tiny_nlp: Language, notes: Path) -> None:
    told = Told()
    output = notes.with_name("linked.jsonl")
    linking = Linking(tiny_nlp, batch_size=1)
    assert link_files(linking, notes, output, progress=told) == (5, 5, ())
    records = [json.loads(line) for line in output.read_text("utf8").splitlines()]
    docs = link_documents(tiny_nlp, map(tiny_nlp.make_doc, TEXTS), batch_size=1)
    assert [r["mentions"] for r in records] == [r["mentions"] for r in docs]
    assert told.total == notes.stat().st_size == pytest.approx(told.bytes)
    stream = io.BytesIO()
    link_files(linking, str(notes), stream)
    assert stream.getvalue() == output.read_bytes()


def test_all_bytes_are_told_of_a_run_that_goes_on(
    tiny_nlp: Language, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = notes.with_name("linked.jsonl")
    linking = Linking(tiny_nlp, batch_size=1)

    class Interrupting(Told):
        def linked(self, n_bytes: float) -> None:
            super().linked(n_bytes)
            if self.bytes > notes.stat().st_size / 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        link_files(linking, notes, output, progress=Interrupting())
    assert not output.exists()
    told = Told()
    assert link_files(linking, notes, output, progress=told).documents == 5
    assert told.lines == ["Going on after 2 documents that were linked before"]
    assert told.bytes == pytest.approx(notes.stat().st_size)


def test_what_cannot_be_written(tiny_nlp: Language, notes: Path) -> None:
    linking = Linking(tiny_nlp)
    with pytest.raises(PelError, match="format to write is not known; end the name in one of"):
        link_files(linking, notes, notes.with_name("linked.pdf"))
    with pytest.raises(PelError, match="is what is read"):
        link_files(linking, notes, notes, output_format="jsonl")
    with pytest.raises(PelError, match="parquet cannot be written to stdout"):
        link_files(linking, notes, io.BytesIO(), output_format="parquet")
