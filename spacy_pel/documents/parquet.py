"""Parquet: read with one document a row; written with one mention a row, for DuckDB or pandas.

Read and written by DuckDB, which is there for reading tables: pyarrow is another 45 MB. Parts are
JSONL; it makes row groups of them one after the other.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import PelError
from ..system.duckdb_session import (
    check_texts,
    duckdb_connection,
    sql_identifier,
    sql_literal,
    sql_path,
)
from .document import Document
from .format import Input, Output, document_id, encoded
from .json_documents import document_of
from .linked import linked_mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc


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
    "types": "VARCHAR[]",
    "candidates": (
        "STRUCT(id VARCHAR, name VARCHAR, score DOUBLE, rerank_score DOUBLE, name_match BOOLEAN, "
        "as_in VARCHAR)[]"
    ),
}
_LONGEST_ROW = 2**24  # bytes of a mention with its candidates, as JSON
_ROWS = 16  # documents fetched at a time: each may be long, though they are packed well


def _documents(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    import duckdb

    with _path_of(file) as path, duckdb_connection(threads=1) as connection:
        table = f"read_parquet({sql_path(path)})"
        try:
            connection.execute(f"DESCRIBE SELECT * FROM {table}")
            columns = _columns([column for column, *_ in connection.fetchall()])
            check_texts(connection, path, columns)
            connection.execute(f"SELECT {', '.join(map(sql_identifier, columns))} FROM {table}")
            fetched = iter(lambda: connection.fetchmany(_ROWS), [])
            for number, row in enumerate(chain.from_iterable(fetched), start=1):
                yield f"row {number}", _without_nulls(dict(zip(columns, row)))
        except duckdb.Error as error:
            problem = f"not Parquet, or damaged ({str(error).splitlines()[0]})"
            raise PelError(problem, "write it again") from error


@contextmanager
def _path_of(file: BinaryIO) -> Iterator[Path]:
    """The path of an open file, which DuckDB needs; of a stream, that of a copy."""
    path = Path(str(getattr(file, "name", "")))
    if isinstance(file, BufferedReader) and path.is_file():
        yield path
        return
    with NamedTemporaryFile(suffix=".parquet") as copy:
        shutil.copyfileobj(file, copy)
        copy.flush()
        yield Path(copy.name)


def _columns(found: list[str]) -> list[str]:
    """The columns to read; PelError if there are no documents in them."""
    if {"document", "start", "end"} <= set(found):
        raise PelError(
            "it has one mention a row, as pel link writes it, and not the texts of the documents",
            "link to JSONL, BioC, PubTator or DocBin, which keep them",
        )
    if "text" not in found:
        raise PelError(
            f"no column 'text', but: {', '.join(found)}",
            "name the column that holds the documents 'text', and those of ids and mentions, if "
            "any, 'id' and 'mentions'",
        )
    return [column for column in ("text", "id", "mentions") if column in found]


def _without_nulls(value: Any) -> Any:
    """The value without the keys that have none, in structs and lists of structs."""
    if isinstance(value, dict):
        return {key: _without_nulls(v) for key, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def _document(row: dict[str, Any], spans_key: str | None) -> Document:
    return document_of(row)


class _Output:
    def __init__(self, vocabularies: Sequence[str]) -> None:
        self.columns = {**_COLUMNS, **dict.fromkeys(vocabularies, "VARCHAR[]")}

    def write_part(
        self, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
    ) -> None:
        with open(path, "wb") as file:
            for number, doc in docs:
                for mention in linked_mentions(doc, spans_key):
                    row = {
                        "document": document_id(number, doc),
                        **mention.pop("xrefs", {}),
                        **mention,
                    }
                    file.write(self._row(row))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        import duckdb

        kinds = [(sql_identifier(name), kind) for name, kind in self.columns.items()]
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in kinds)
        files = ", ".join(map(sql_path, parts))
        rows = (
            f"read_json([{files}], format = 'newline_delimited', columns = {{{columns}}}, "
            f"compression = 'uncompressed', maximum_object_size = {_LONGEST_ROW})"
        )
        if not any(part.stat().st_size for part in parts):
            nothing = (f"NULL::{kind} AS {name}" for name, kind in kinds)
            rows = f"(SELECT {', '.join(nothing)} LIMIT 0)"
        with duckdb_connection(threads=1) as connection:  # the same parts give the same bytes
            try:
                connection.execute(
                    f"COPY (SELECT * FROM {rows}) TO {sql_literal(str(path))} (FORMAT parquet)"
                )
            except duckdb.IOException as error:
                raise OSError(errno.ENOSPC, f"could not be written whole: {error}") from error

    def _row(self, row: dict[str, Any]) -> bytes:
        cells = {name: row.get(name) for name in self.columns}
        return encoded(json.dumps(cells, ensure_ascii=False) + "\n")


def coded_output(vocabularies: Sequence[str]) -> Output:
    """How mentions are written, with a column of codes for each of these vocabularies."""
    return _Output(vocabularies)


INPUT = Input(_documents, _document, has_ids=True)
