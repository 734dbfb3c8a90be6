"""Tables: CSV and TSV, plain or gzipped, and Parquet. Each row has a name or an entity."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...system.duckdb_session import check_texts, duckdb_connection, sql_identifier, sql_path
from ...system.lines import check_gzip, numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import united
from .entity_source import ReadOptions, Source, SourceFormat, or_gzipped

_TEXTS = ("concept_id", "canonical_name", "definition")
_NEEDED = ("concept_id", "canonical_name")
_ROWS_AT_ONCE = 100  # more are not faster, and texts may be long
_LONGEST_ROW = 2**22  # characters; cells may have many lines

Row = tuple[str, list[Any]]  # its place, with the name of the file, and its cells


def read_table(path: Path, options: ReadOptions) -> Source:
    """The entities of a ``.csv``, ``.tsv`` (plain or ``.gz``) or ``.parquet`` file, sorted by id.

    A column holds the field of ``Entity`` that ``options.columns`` gives for it, or else the field
    of the same name. Other columns are ignored. A field that is a list may have several columns.
    Its cells are lists, or texts with bars between the items ("MS|Disseminated sclerosis"). An
    entity may have several rows, for example one for each name: the name in the first row is the
    canonical name, and lists are united.

    Raises:
        PelError: A column of ``options`` is missing, a needed field has no column, or a field that
            is one text has several. Reading the entities raises it, with file and row or line, for
            a row without id or name, for what ``cleaned`` refuses, and for a file that cannot be
            parsed.
    """
    if path.name.lower().endswith(".parquet"):
        columns = [row[0] for _, row in _parquet_rows(path, "DESCRIBE SELECT *")]
        fields = _fields(path, columns, options.columns)
        _check_parquet(path, fields)
        rows = _parquet_rows(path, f"SELECT {', '.join(map(sql_identifier, fields))}")
    else:
        check_gzip(path)  # or damage might look like other columns
        delimiter = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
        whole_rows = text_rows(path, delimiter)
        _, columns = next(whole_rows, ("", []))
        repeated = [name for name, times in Counter(columns).items() if name and times > 1]
        if repeated:
            raise PelError(f"{path}, line 1: two columns {repeated[0]!r}", "rename one")
        fields = _fields(path, columns, options.columns)
        places = [columns.index(column) for column in fields]
        rows = ((where, [row[i] for i in places]) for where, row in whole_rows)
    return Source(united(_entities(rows, list(fields.values()))))


def text_rows(path: Path, delimiter: str, comment: str | None = None) -> Iterator[Row]:
    """The rows of a table in text, the first of which names the columns. Blank lines go.

    Args:
        path: The file, plain or ``.gz``.
        delimiter: What stands between two cells.
        comment: How lines begin that are passed over.

    Raises:
        PelError: With file and line, for quotes that do not end, a row that is too long, or one of
            more or fewer cells than there are columns.
    """
    csv.field_size_limit(_LONGEST_ROW)  # of the whole process, so it is set by each reader
    number = size = n_columns = 0

    def lines() -> Iterator[str]:
        nonlocal number, size
        for number, line in numbered_lines(path):
            size += len(line)
            if size > _LONGEST_ROW:
                problem = f"{path}, line {number}: a row of more than {_LONGEST_ROW:,} characters"
                raise PelError(problem, "correct its quotes, or split it")
            if comment is None or not line.startswith(comment):
                yield f"{line}\n"

    try:
        for row in csv.reader(lines(), delimiter=delimiter, strict=True):
            where, size = f"{path}, line {number}", 0
            n_columns = n_columns or len(row)
            if row and len(row) != n_columns:
                problem = f"{where}: {len(row)} cells, where the first row has {n_columns}"
                raise PelError(problem, "correct the row")
            if row:
                yield where, row
    except csv.Error as error:
        raise PelError(f"{path}, line {number}: {error}", "correct the line") from error


def _parquet_rows(path: Path, select: str) -> Iterator[Row]:
    import duckdb

    try:
        with duckdb_connection() as connection:
            rows = connection.execute(f"{select} FROM read_parquet({sql_path(path)})")
            fetched = chain.from_iterable(iter(lambda: rows.fetchmany(_ROWS_AT_ONCE), []))
            for number, row in enumerate(fetched, start=1):
                yield f"{path}, row {number}", list(row)
    except duckdb.Error as error:
        fault = " ".join(str(error)[:480].split()).partition(" Possible")[0]
        raise PelError(f"{path}: {fault}", "correct the file") from error


def _check_parquet(path: Path, columns: Iterable[str]) -> None:
    import duckdb

    # What is damaged is said when it is read.
    with duckdb_connection() as connection, suppress(duckdb.Error):
        try:
            check_texts(connection, path, columns)
        except PelError as error:
            raise error.at(str(path)) from error


def _entities(rows: Iterable[Row], fields: list[str]) -> Iterator[Entity]:
    for where, cells in rows:
        values: dict[str, Any] = {}
        for field, cell in zip(fields, cells):
            if field in _TEXTS:
                values[field] = "" if cell is None else str(cell).strip()
            else:
                values[field] = (*values.get(field, ()), *_items(cell))
        if not values["concept_id"] or not values["canonical_name"]:
            raise PelError(f"{where}: no id or no name in it", "correct the row")
        yield cleaned_at(where, Entity(**values))


def _items(cell: Any) -> list[str]:
    if cell is None:
        return []
    items = cell if isinstance(cell, list) else str(cell).split("|")
    return [str(item).strip() for item in items if item is not None and str(item).strip()]


def _fields(path: Path, columns: list[str], named: Mapping[str, str]) -> dict[str, str]:
    """The field of ``Entity`` that each column holds, of those that hold one."""
    for column, field in named.items():
        if column not in columns:
            raise PelError(f"{path}: no column {column!r}", f"choose from {', '.join(columns)}")
        if field not in Entity._fields:
            raise PelError(f"no field {field!r}", f"choose one of {', '.join(Entity._fields)}")
    others = set(Entity._fields) - set(named.values())
    fields = {c: named.get(c, c) for c in columns if c in named or c in others}
    for field in _TEXTS:
        bearers = [column for column, name in fields.items() if name == field]
        if not bearers and field in _NEEDED:
            raise PelError(
                f"{path}: no column {field}",
                f"name the one that holds it: --column {field}=COLUMN (it has {', '.join(columns)})",
            )
        if len(bearers) > 1:
            raise PelError(f"{path}: several columns for {field}: {', '.join(bearers)}", "name one")
    return fields


FORMAT = SourceFormat("table", read_table, (*or_gzipped(".csv", ".tsv"), ".parquet"))
