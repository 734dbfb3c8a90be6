"""Linking part by part: broken off, it goes on where it was, and the output is the same."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin, Span

from .link_examples import breaking_after, failing_elsewhere, records


@pytest.mark.parametrize("n_process", [1, 2])
@pytest.mark.timeout(120)
def test_parts_change_nothing(
    run, tiny_folder: Path, tmp_path: Path, monkeypatch, n_process: int
) -> None:
    nlp = spacy.blank("en")
    docs = [nlp(f"Aspirin{n} relieves headache and w{n}") for n in range(7)]
    for doc in docs[:5]:
        doc.ents = [Span(doc, 0, 1, label=f"L{len(doc.text)}"), Span(doc, 4, 5, label="W")]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    arguments = ("link", tiny_folder, tmp_path / "docs.spacy", "--n-process", n_process)
    arguments += ("--batch-size", 2, "-o")  # divides the part: batches decide the last bits
    run(*arguments, tmp_path / "one.jsonl")
    monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 4)
    run(*arguments, tmp_path / "many.jsonl")
    assert len(records(tmp_path / "one.jsonl")) == 7
    assert records(tmp_path / "many.jsonl") == records(tmp_path / "one.jsonl")


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "xml", "parquet", "spacy"])
def test_it_goes_on_where_it_was_broken_off(
    run, tiny_folder: Path, twelve: Path, out: Path, monkeypatch, suffix: str
) -> None:
    out = out.with_suffix(f".{suffix}")
    whole = out.with_name(f"whole.{suffix}")
    arguments = ("link", tiny_folder, twelve, "--batch-size", 1, "-o")
    run(*arguments, whole)
    with monkeypatch.context() as patch:
        breaking_after(5, KeyboardInterrupt(), patch)
        assert "the same command goes on" in run(*arguments, out, code=130)
    with monkeypatch.context() as patch:
        linked = breaking_after(3, OSError(errno.ENOSPC, "No space left"), patch)
        assert "Going on after 4 documents" in run(*arguments, out, code=1)
        assert [text[:7] for text in linked] == ["Case 4:", "Case 5:", "Case 6:"]
    linked = breaking_after(-1, KeyboardInterrupt(), monkeypatch)
    output = run(*arguments, out)
    assert "Going on after 6 documents" in output
    assert "Linked 24 mentions of 12 documents" in output
    assert [text[5:7] for text in linked] == ["6:", "7:", "8:", "9:", "10", "11"]
    assert out.read_bytes() == whole.read_bytes()
    assert {path.name for path in out.parent.iterdir()} == {out.name, whole.name}


def test_another_input_or_pipeline_is_linked_anew(
    run, tiny_folder: Path, twelve: Path, tmp_path: Path, out: Path, monkeypatch
) -> None:
    arguments = ("link", tiny_folder, twelve, "--batch-size", 1, "-o", out)
    with monkeypatch.context() as patch:
        breaking_after(9, KeyboardInterrupt(), patch)
        run(*arguments, code=130)
        twelve.write_text(twelve.read_text().replace("Case 3", "Case X"))
    with monkeypatch.context() as patch:
        linked = breaking_after(3, KeyboardInterrupt(), patch)
        output = run(*arguments, code=130)
        assert "The input has changed from about document 3 on" in output
        assert linked[0].startswith("Case 2:") and linked[1].startswith("Case X:")
    output = run(*arguments, "--candidates", 3)
    assert "was begun with another number of candidates; starting again" in output
    run(*arguments[:-1], tmp_path / "a.jsonl", "--candidates", 3)
    assert out.read_bytes() == (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.parametrize(
    "error, code, message",
    [
        (KeyboardInterrupt(), 130, "interrupted; what is linked is kept beside the output"),
        (OSError(errno.ENOSPC, "No space left"), 1, "No space left; what is linked is kept"),
    ],
)
def test_breaking_off_leaves_what_was_there(
    run, tiny_folder: Path, text: Path, out: Path, monkeypatch, error, code: int, message: str
) -> None:
    failing_elsewhere(error, monkeypatch)
    arguments = ("link", tiny_folder, text, "-o", out, "--batch-size", 1)
    assert message in run(*arguments, code=code)
    assert list(out.parent.iterdir()) == []
    out.write_text("old")
    run(*arguments, code=code)
    assert [(path.name, path.read_text()) for path in out.parent.iterdir()] == [(out.name, "old")]
