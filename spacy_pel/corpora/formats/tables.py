"""Tables in CSV, TSV, and Parquet. Input has one document per row, and output one mention per row.

DuckDB, which other modules need as well, reads and writes Parquet. pyarrow would add 45 MB.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from ...io.duckdb_session import duckdb_connection, sql_identifier, sql_literal, sql_path
from ...io.table_rows import table_rows
from ...kb.readers.tables import parquet_rows
from ..doc_conversion import linked_mentions, plain_text
from ..document import Document
from .base import (
    MAX_DOCUMENT_BYTES,
    BoundedFile,
    Format,
    Input,
    TextOutput,
    checked_text,
    document_id,
    unchecked_text,
)
from .json_formats import document_of

if TYPE_CHECKING:
    import duckdb
    from spacy.tokens import Doc

# The columns of a mention in CSV and TSV, and those of Parquet with their types.
COLUMNS = (
    *("document", "start", "end", "text", "label"),
    *("id", "name", "score", "probability", "types"),
)
_KINDS = dict.fromkeys(COLUMNS, "VARCHAR") | {
    **{"start": "BIGINT", "end": "BIGINT", "score": "DOUBLE", "probability": "DOUBLE"},
    "types": "VARCHAR[]",
    "candidates": (
        "STRUCT(id VARCHAR, name VARCHAR, score DOUBLE, rerank_score DOUBLE, probability DOUBLE, "
        "correction VARCHAR, as_in VARCHAR, matched_name VARCHAR, why VARCHAR)[]"
    ),
}
_MAX_ROW_BYTES = 2**24  # bytes of a mention with its candidates, as JSON
_NAME_THEM = (
    "name the column with the texts 'text', and optional columns with ids and mentions 'id' "
    "and 'mentions'"
)


def _csv_rows(delimiter: str | None, file: BoundedFile) -> Iterator[tuple[int, Any]]:
    lines = map(unchecked_text, file)
    rows = table_rows(enumerate(lines, start=1), delimiter, MAX_DOCUMENT_BYTES)
    _, header = next(rows, (1, []))
    if isinstance(header, csv.Error):
        raise PelError(f"line 1: {header}", "correct it")
    if "text" not in header:
        problem = f"no column 'text' in line 1, which names: {', '.join(header) or 'none'}"
        raise PelError(problem, _NAME_THEM)
    for first, row in rows:
        if isinstance(row, csv.Error):
            yield first, PelError(str(row), "correct the document")
        elif len(row) != len(header):
            problem = f"the row does not have the {len(header)} columns of line 1"
            yield first, PelError(problem, "correct the document")
        else:
            cells = dict(zip(header, row))
            yield first, {key: cells[key] for key in ("text", "id") if key in cells}


def _csv_document(row: dict[str, str]) -> Document:
    cells = {key: checked_text(cell) for key, cell in row.items()}
    return Document(cells["text"], cells.get("id"))


def _csv_text(
    delimiter: str,
    vocabularies: Sequence[str],
    attributes: Sequence[str],
    number: int,
    doc: Doc,
    spans_key: str | None,
) -> str:
    """Return a line for each mention. Bars join several types, or several codes of one vocabulary."""
    lines = []
    for mention in linked_mentions(doc, spans_key):
        codes = ("|".join(mention.get("xrefs", {}).get(name, ())) for name in vocabularies)
        others = (plain_text(mention.get("attributes", {}).get(name)) for name in attributes)
        mention |= {"document": document_id(number, doc), "types": "|".join(mention["types"])}
        cells = (mention[column] for column in COLUMNS)
        lines.append(csv_line(delimiter, [*cells, *codes, *others]))
    return "".join(lines)


def csv_line(delimiter: str, row: Iterable[Any]) -> str:
    """Return a row as a line that ends in a line feed."""
    file = io.StringIO(newline="")
    # Before 3.13, Python quotes a "\r" in a cell only if lines end in one. Unquoted, it ends a line.
    csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerow(row)
    return file.getvalue().removesuffix("\r\n") + "\n"


def _csv_output(
    delimiter: str, vocabularies: Sequence[str] = (), attributes: Sequence[str] = ()
) -> TextOutput:
    columns = _distinct([*COLUMNS, *vocabularies, *attributes])
    text = partial(_csv_text, delimiter, vocabularies, attributes)
    return TextOutput(text, csv_line(delimiter, columns))


def _distinct(columns: list[str]) -> list[str]:
    """Return the columns, or raise a PelError if two have the same name."""
    if repeated := sorted({name for name in columns if columns.count(name) > 1}):
        problem = f"two columns would be named {', '.join(repeated)}"
        raise PelError(problem, "write JSONL, which has a separate object for attributes")
    return columns


def _csv_format(name: str, delimiter: str) -> Format:
    sniffed = None if delimiter == "," else delimiter
    read = Input(partial(_csv_rows, sniffed), _csv_document, has_ids=False)
    coded = partial(_csv_output, delimiter)
    return Format(name, (f".{name}",), read, coded(), coded)


def _parquet_documents(file: BoundedFile) -> Iterator[tuple[str, Any]]:
    with _path_of(file) as path:
        rows = parquet_rows(path, _document_columns)
        columns = next(rows)
        for number, row in enumerate(rows, start=1):
            yield f"row {number}", _without_nulls(dict(zip(columns, row)))


def _document_columns(columns: Sequence[str]) -> list[str]:
    if {"document", "start", "end"} <= set(columns):
        problem = (
            "the table has one mention per row, as pel link writes it, not one document per row"
        )
        raise PelError(problem, "link to JSONL, BioC, PubTator or DocBin, which keep them")
    if "text" not in columns:
        raise PelError(f"no column 'text', but: {', '.join(columns)}", _NAME_THEM)
    return [column for column in ("text", "id", "mentions") if column in columns]


@contextmanager
def _path_of(file: BoundedFile) -> Iterator[Path]:
    """Yield the path of an open file, or of a copy of a stream, because DuckDB needs a path."""
    path = Path(str(getattr(file.file, "name", "")))
    if isinstance(file.file, BufferedReader) and path.is_file():
        yield path
        return
    with NamedTemporaryFile(suffix=".parquet") as copy:
        shutil.copyfileobj(file.file, copy)
        copy.flush()
        yield Path(copy.name)


def _without_nulls(value: Any) -> Any:
    """Remove keys without a value from structs and lists of structs."""
    if isinstance(value, dict):
        return {key: _without_nulls(v) for key, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


class _ParquetOutput:
    """A Parquet file. Parts are JSONL with one mention per line, which DuckDB converts to row groups."""

    def __init__(self, vocabularies: Sequence[str] = (), attributes: Sequence[str] = ()) -> None:
        _distinct([*_KINDS, *vocabularies, *attributes])
        codes = dict.fromkeys(vocabularies, "VARCHAR[]")
        self.kinds = {**_KINDS, **codes, **{name: _kind_of(name) for name in attributes}}
        self.write_part = TextOutput(self._lines).write_part

    def _lines(self, number: int, doc: Doc, spans_key: str | None) -> str:
        lines = []
        for mention in linked_mentions(doc, spans_key):
            others = {**mention.pop("xrefs", {}), **mention.pop("attributes", {})}
            row = {"document": document_id(number, doc), **others, **mention}
            cells = {name: row.get(name) for name in self.kinds}
            lines.append(json.dumps(cells, ensure_ascii=False) + "\n")
        return "".join(lines)

    def join(self, parts: Sequence[Path], path: Path) -> None:
        with duckdb_connection(threads=1) as connection:  # the same parts give the same bytes
            write_parquet(connection, f"SELECT * FROM {rows_of_parts(parts, self.kinds)}", path)


def _kind_of(attribute: str) -> str:
    """Return the SQL type of an extension attribute: BOOLEAN or VARCHAR."""
    from spacy.tokens import Span

    default, *_ = Span.get_extension(attribute)
    return "BOOLEAN" if isinstance(default, bool) else "VARCHAR"


def rows_of_parts(
    parts: Sequence[Path], kinds: Mapping[str, str], compression: str = "uncompressed"
) -> str:
    """Return the rows of files of JSON lines as a table in SQL, with columns of these types."""
    columns = [(sql_identifier(name), kind) for name, kind in kinds.items()]
    if not any(part.stat().st_size for part in parts):
        nulls = (f"NULL::{kind} AS {name}" for name, kind in columns)
        return f"(SELECT {', '.join(nulls)} LIMIT 0)"
    kinds_of_columns = ", ".join(f"{name}: '{kind}'" for name, kind in columns)
    return (
        f"read_json([{', '.join(map(sql_path, parts))}], format = 'newline_delimited', "
        f"columns = {{{kinds_of_columns}}}, compression = '{compression}', "
        f"maximum_object_size = {_MAX_ROW_BYTES})"
    )


def write_parquet(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    """Write the rows of a query to a Parquet file, or raise an OSError if there is no space."""
    import duckdb

    try:
        connection.execute(f"COPY ({query}) TO {sql_literal(str(path))} (FORMAT parquet)")
    except duckdb.IOException as error:
        raise OSError(errno.ENOSPC, f"could not be written whole: {error}") from error


_ROWS = Input(_parquet_documents, document_of, has_ids=True)
FORMATS = (
    _csv_format("csv", ","),
    _csv_format("tsv", "\t"),
    Format("parquet", (".parquet",), _ROWS, _ParquetOutput(), _ParquetOutput),
)
