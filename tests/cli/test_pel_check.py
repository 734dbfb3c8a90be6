"""``pel check``: what it prints and writes, and how it ends."""

from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from spacy_pel.cli import pel

from ..conftest import records


def test_pairs_in_verdicts_out(run, tiny_kb, tiny_folder, tmp_path) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out.jsonl"
    pairs.write_text("name\tid\nMS\tC01\naspirin\tC06\n", "utf8")
    result = CliRunner().invoke(pel, ["check", str(tiny_kb), str(pairs)])
    assert result.exit_code == 3  # not all are right
    assert result.stdout.splitlines()[2] == "aspirin\tC06\tother name\theadache\tC05\taspirin\t0.99"
    assert "Checked 2 pairs: 1 correct, 1 other name" in result.stderr
    result = CliRunner().invoke(pel, ["check", str(tiny_folder), str(pairs), "-o", str(out)])
    assert result.exit_code == 3 and not result.stdout
    assert [line["verdict"] for line in records(out)] == ["correct", "other name"]
    pairs.write_text("name\tid\nMS\tC01\n", "utf8")
    assert "Checked 1 pairs: 1 correct" in run("check", tiny_kb, pairs)


def test_what_cannot_be_checked_is_said(run: Callable, tiny_kb: Path, tmp_path: Path) -> None:
    missing, out = tmp_path / "none.tsv", tmp_path / "out.tsv"
    assert "use the suffix .tsv" in run("check", tiny_kb, missing, "-o", "out.parquet", code=1)
    assert "cannot be read" in run("check", tiny_kb, missing, "-o", out, code=1)
    said = run("check", tmp_path, missing, "-o", out, code=1)
    assert f"{tmp_path}: no knowledge base or trained pipeline; check" in said
    assert not out.exists()
