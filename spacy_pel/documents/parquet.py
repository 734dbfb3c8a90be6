"""Parquet, a mention a row: for DuckDB, pandas and the like.

Written by DuckDB, which is there for reading tables: pyarrow is another 45 MB. Parts are JSONL; it
makes row groups of them one after the other.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from ..system.duckdb_session import duckdb_connection, sql_identifier, sql_literal, sql_path
from .format import document_id, encoded
from .linked import linked_mentions

_COLUMNS = {
    "document": "VARCHAR",
    "start": "BIGINT",
    "end": "BIGINT",
    "text": "VARCHAR",
    "label": "VARCHAR",
    "id": "VARCHAR",
    "name": "VARCHAR",
    "score": "DOUBLE",
    "probability": "DOUBLE",
    "candidates": (
        "STRUCT(id VARCHAR, name VARCHAR, score DOUBLE, rerank_score DOUBLE, name_match BOOLEAN)[]"
    ),
}
_LONGEST_ROW = 2**24  # bytes of a mention with its candidates, as JSON


class _Output:
    def write_part(
        self, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
    ) -> None:
        with open(path, "wb") as file:
            for number, doc in docs:
                for mention in linked_mentions(doc, spans_key):
                    file.write(_row({"document": document_id(number, doc), **mention}))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        import duckdb

        columns = ", ".join(f"{sql_identifier(name)}: '{kind}'" for name, kind in _COLUMNS.items())
        files = ", ".join(map(sql_path, parts))
        rows = (
            f"read_json([{files}], format = 'newline_delimited', columns = {{{columns}}}, "
            f"compression = 'uncompressed', maximum_object_size = {_LONGEST_ROW})"
        )
        if not any(part.stat().st_size for part in parts):
            nothing = (f"NULL::{kind} AS {sql_identifier(name)}" for name, kind in _COLUMNS.items())
            rows = f"(SELECT {', '.join(nothing)} LIMIT 0)"
        with duckdb_connection(threads=1) as connection:  # the same parts give the same bytes
            try:
                connection.execute(
                    f"COPY (SELECT * FROM {rows}) TO {sql_literal(str(path))} (FORMAT parquet)"
                )
            except duckdb.IOException as error:
                raise OSError(errno.ENOSPC, f"could not be written whole: {error}") from error


def _row(row: dict[str, Any]) -> bytes:
    return encoded(json.dumps({name: row[name] for name in _COLUMNS}, ensure_ascii=False) + "\n")


OUTPUT = _Output()
