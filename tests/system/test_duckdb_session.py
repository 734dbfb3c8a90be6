"""Parquet files of texts that are stored once and read often."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError
from spacy_pel.kb.readers import open_source
from spacy_pel.system import duckdb_session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 5,000 rows of 1,000 characters, and the rows of the last 2,048 have twice as many."""
    row = "'C' || i AS concept_id, 'x' AS canonical_name, i AS id"
    text = "repeat('x', if(i < 2952, 1000, 2000)) AS text"
    duckdb.sql(f"SELECT {row}, {text} FROM range(5000) t(i)").write_parquet(
        str(tmp_path / "a.parquet")
    )
    return tmp_path / "a.parquet"


def test_the_texts_of_2048_rows_are_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [0, 0, 0]
    for i in range(5_000):
        sizes[i // 2_048] += len(f"C{i}") + (1_000 if i < 2952 else 2_000)
    columns = ["concept_id", "id", "text"]
    with duckdb_session.duckdb_connection() as connection:
        monkeypatch.setattr(duckdb_session, "MOST_TEXT", max(sizes))
        duckdb_session.check_texts(connection, path, columns)
        monkeypatch.setattr(duckdb_session, "MOST_TEXT", max(sizes) - 1)
        with pytest.raises(PelError):
            duckdb_session.check_texts(connection, path, columns)
        duckdb_session.check_texts(connection, path, ["id"])


def test_such_files_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_session, "MOST_TEXT", 3_000_000)
    (raw,) = open_documents(str(path))
    with pytest.raises(PelError, match="a.parquet: 2,048 rows of more than 3,000,000 bytes of"):
        raw.document()
    assert len(list(open_source(path).entities)) == 5_000  # its texts are not read
    duckdb.sql(f"SELECT *, text AS definition FROM '{path}'").write_parquet(f"{path}.parquet")
    with pytest.raises(PelError, match="a.parquet.parquet: 2,048 rows of more than"):
        open_source(Path(f"{path}.parquet"))
