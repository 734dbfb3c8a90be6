"""``pel mentions``: what it says, and that it takes several texts."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
from typer.testing import CliRunner

from spacy_pel.cli import pel


def test_several_texts(tiny_kb: Path, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("Kidney and aspirin.\nMS\n")
    (tmp_path / "b.pubtator").write_text(
        "1|t|Aspirin and headache\n1\t0\t7\tAspirin\tT\tC05\n1\t12\t20\theadache\tT\tC01\n"
    )
    inputs = [str(tmp_path / name) for name in ("a.txt.gz", "b.pubtator")]
    out = tmp_path / "out.parquet"
    result = CliRunner().invoke(pel, ["mentions", str(tiny_kb), *inputs, str(out)])
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "4 mentions of 3 entities, of 4 found in 3 documents" in said
    assert "50.0% of the 2 that are annotated are right" in said
    rows = duckdb.sql(f"SELECT source, id, name, \"right\" FROM '{out}' ORDER BY ALL").fetchall()
    assert rows == [
        (inputs[0], "line 1", "Kidney", None),
        (inputs[0], "line 1", "aspirin", None),
        (inputs[1], "1", "Aspirin", True),
        (inputs[1], "1", "headache", False),
    ]
