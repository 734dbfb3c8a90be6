"""Parquet files of texts that are stored once and read often."""

from pathlib import Path

import duckdb
import pytest

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError
from spacy_pel.kb.readers import ReadOptions, open_source
from spacy_pel.system import duckdb_session


def test_parquet_with_much_text_in_2048_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 5,000 rows of 1,000 characters, the last 2,048 have twice as many."""
    path = tmp_path / "a.parquet"
    row = "'C' || i AS concept_id, 'x' AS canonical_name, i AS id"
    text = "repeat('x', if(i < 2952, 1000, 2000)) AS text"
    duckdb.sql(f"SELECT {row}, {text} FROM range(5000) t(i)").write_parquet(str(path))
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
    monkeypatch.setattr(duckdb_session, "MOST_TEXT", 3_000_000)
    (raw,) = open_documents(str(path))
    with pytest.raises(PelError, match="a.parquet: 2,048 rows of more than 3,000,000 bytes of"):
        raw.document()
    assert len(list(open_source(path).entities)) == 5_000  # its texts are not read
    with pytest.raises(PelError, match="a.parquet: 2,048 rows of more than"):
        open_source(path, options=ReadOptions(columns={"text": "definition"}))
