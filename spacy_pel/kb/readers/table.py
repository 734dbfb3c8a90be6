"""Tables with named columns: CSV, TSV and Parquet, which DuckDB reads as a stream."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...system.duckdb_session import check_texts, duckdb_connection, sql_identifier, sql_path
from ...system.lines import check_gzip, numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import united
from .entity_source import ReadOptions, Source

_TEXTS = ("concept_id", "canonical_name", "definition")
_NEEDED = ("concept_id", "canonical_name")
_ROWS_AT_ONCE = 100  # more are not faster, and texts may be long


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
    is_parquet = path.name.lower().endswith(".parquet")
    relation, columns = _parquet(path) if is_parquet else _text_table(path)
    fields = _fields(path, list(columns), options.columns)
    if is_parquet:
        _check_parquet(path, fields)
    query = f"SELECT {', '.join(sql_identifier(columns[name]) for name in fields)} FROM {relation}"
    return Source(united(_entities(path, query, fields)))


def _text_table(path: Path) -> tuple[str, dict[str, str]]:
    """SQL for the rows, and DuckDB's name for each column of the first line.

    DuckDB is told how the file is written, so that it does not guess. Columns are named by their
    places, because DuckDB accepts neither empty names nor names that differ only in case.
    """
    check_gzip(path)
    delimiter = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
    lines = (line for _, line in numbered_lines(path))
    try:
        header = next(csv.reader(lines, delimiter=delimiter), [])
    except csv.Error as error:
        raise PelError(f"{path}, line 1: {error}", "correct the line") from error
    repeated = [name for name, times in Counter(header).items() if name and times > 1]
    if repeated:
        raise PelError(f"{path}, line 1: two columns {repeated[0]!r}", "rename one")
    columns = {name: f"c{place}" for place, name in enumerate(header)}
    types = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(header)))
    settings = f"auto_detect = false, header = true, delim = '{delimiter}', quote = '\"'"
    return f"read_csv({sql_path(path)}, {settings}, escape = '\"', columns = {{{types}}})", columns


def _parquet(path: Path) -> tuple[str, dict[str, str]]:
    relation = f"read_parquet({sql_path(path)})"
    names = [row[0] for row in _rows(path, f"DESCRIBE SELECT * FROM {relation}")]
    return relation, dict(zip(names, names))


def _check_parquet(path: Path, columns: Iterable[str]) -> None:
    import duckdb

    # What is damaged is said when it is read.
    with duckdb_connection() as connection, suppress(duckdb.Error):
        try:
            check_texts(connection, path, columns)
        except PelError as error:
            raise error.at(str(path)) from error


def _rows(path: Path, query: str) -> Iterator[tuple[Any, ...]]:
    import duckdb

    try:
        with duckdb_connection() as connection:
            rows = connection.execute(query)
            while block := rows.fetchmany(_ROWS_AT_ONCE):
                yield from block
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        fault = " ".join(line[:120] for line in lines[:4]).partition(" Possible")[0]
        raise PelError(f"{path}: {fault}", "correct the file") from error


def _entities(path: Path, query: str, fields: Mapping[str, str]) -> Iterator[Entity]:
    for number, row in enumerate(_rows(path, query), start=1):
        entity = _entity(zip(fields.values(), row))
        if not entity.concept_id or not entity.canonical_name:
            raise PelError(f"{path}, row {number}: no id or no name in it", "correct the row")
        yield cleaned_at(f"{path}, row {number}", entity)


def _entity(cells: Iterable[tuple[str, Any]]) -> Entity:
    """The entity of pairs (field, cell)."""
    values: dict[str, Any] = {}
    for field, cell in cells:
        if field in _TEXTS:
            values[field] = "" if cell is None else str(cell).strip()
        else:
            values[field] = (*values.get(field, ()), *_items(cell))
    return Entity(**values)


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
    fields = {
        column: named.get(column, column)
        for column in columns
        if column in named or column in others
    }
    for field in Entity._fields:
        bearers = [column for column, name in fields.items() if name == field]
        if not bearers and field in _NEEDED:
            raise PelError(
                f"{path}: no column {field}",
                f"name the one that holds it: --column {field}=COLUMN "
                f"(it has {', '.join(columns)})",
            )
        if len(bearers) > 1 and field in _TEXTS:
            raise PelError(f"{path}: several columns for {field}: {', '.join(bearers)}", "name one")
    return fields
