"""Documents that cannot be read, or that a component fails at: skipped, or the end of the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spacy.tokens import Doc
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.pipeline.proxy_linker import ProxyLinker

from .link_examples import GIVEN, TEXT, breaking_after, records


def bad_lines(path: Path) -> Path:
    path.write_text(f"{json.dumps(GIVEN)}\nnonsense\n{json.dumps({'text': TEXT})}\n{{}}\n")
    return path


def failing_at(beginning: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the linker fail at documents that begin so."""

    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if any(doc.text.startswith(beginning) for doc in docs):
            raise RuntimeError("odd\nsize")
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", broken)


def test_bad_documents_are_skipped_or_stop_the_run(
    run, tiny_folder: Path, tmp_path: Path, out: Path, monkeypatch
) -> None:
    monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 3)
    arguments = ("link", tiny_folder, bad_lines(tmp_path / "docs.jsonl"), "-o", out)
    output = run(*arguments, "--on-error", "skip")
    assert "Skipped document 2: " in output and "docs.jsonl, line 2: bad JSON" in output
    assert "Skipped document 4: " in output and "line 4: 'text' is missing" in output
    assert "Linked 3 mentions of 2 documents, 2 skipped" in output
    assert [record["text"] for record in records(out)] == [GIVEN["text"], TEXT]
    output = run(*arguments, code=1)
    assert "document 2: " in output and "or leave it out with --on-error skip" in output
    assert len(records(out)) == 2  # as it was


def test_a_bad_line_leaves_nothing(run, tiny_folder: Path, tmp_path: Path, out: Path) -> None:
    (tmp_path / "docs.jsonl").write_text(f"{json.dumps(GIVEN)}\nnonsense\n", encoding="utf8")
    output = run("link", tiny_folder, tmp_path / "docs.jsonl", "-o", out, code=1)
    assert "docs.jsonl, line 2: bad JSON" in output
    assert list(out.parent.iterdir()) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("n_process", [1, 2])
def test_a_document_that_a_component_fails_at(
    run, tiny_folder: Path, twelve: Path, out: Path, monkeypatch, n_process: int
) -> None:
    failing_at("Case 3:", monkeypatch)
    arguments = ("link", tiny_folder, twelve, "-o", out, "--n-process", n_process)
    output = run(*arguments, "--on-error", "skip")
    assert "Skipped document 4: " in output
    assert "twelve.txt, line 4: a component fails at it: RuntimeError: odd size" in output
    assert [record["text"][5:7] for record in records(out)] == [
        *("0:", "1:", "2:", "4:", "5:", "6:", "7:", "8:", "9:", "10", "11")
    ]
    if n_process == 1:
        assert "document 4: " in run(*arguments, code=1)


def test_a_component_that_fails_at_every_document_is_a_bug(
    tiny_folder: Path, twelve: Path, out: Path, monkeypatch
) -> None:
    breaking_after(0, RuntimeError("broken"), monkeypatch)
    arguments = ["link", str(tiny_folder), str(twelve), "-o", str(out), "--on-error", "skip"]
    result = CliRunner().invoke(pel, arguments)
    assert isinstance(result.exception, RuntimeError)


def test_a_document_that_fails_alone_in_its_part(
    run, tiny_folder: Path, twelve: Path, out: Path, monkeypatch
) -> None:
    failing_at("Case 11:", monkeypatch)
    monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 11)
    output = run("link", tiny_folder, twelve, "-o", out, "--on-error", "skip")
    assert "Skipped document 12: " in output and len(records(out)) == 11


def test_a_line_that_is_too_long_says_that_the_rest_is_not_read(
    run, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spacy_pel.documents.format.LONGEST", 60)
    path, out = tmp_path / "notes.jsonl", tmp_path / "out.jsonl"
    texts = ["MS.", "MS." + " " * 60, "MS again."]
    path.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    output = run("link", tiny_folder, path, "-o", out, "--on-error", "skip")
    assert "no end of a document in 60 bytes, and the rest of the file is not read" in output
    assert "of 1 documents, 1 skipped" in output
