"""Linking part by part: broken off, it goes on where it was, and the output is the same."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from .link_examples import breaking_after


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
        out.write_text("old")
        said = run(*arguments, out, code=130)
        assert "interrupted; what is linked is kept beside the output, and the same" in said
        assert out.read_text() == "old"
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
