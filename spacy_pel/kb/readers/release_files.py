"""Releases as tables in DuckDB, and the facts in them as entities: what RRF and SNOMED CT share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import PelError
from ...io.duckdb_session import duckdb_that_sorts, sql_identifier, sql_literal, sql_path
from ...io.lines import check_gzip, numbered_lines
from ..records.entity import Entity

if TYPE_CHECKING:
    import duckdb

MAX_ROW_BYTES = 1_000_000  # bytes
# The kinds of facts about an entity.
NAME, TYPE, DEFINITION, PARENT, RETIRED = range(5)


class Release(NamedTuple):
    """The tables of a release as views of DuckDB. One that the release lacks has no rows."""

    connection: duckdb.DuckDBPyConnection

    def fetched(self, query: str) -> Iterator[tuple]:
        cursor = self.connection.execute(query)
        while rows := cursor.fetchmany(10_000):
            yield from rows

    def entities(self, queries: Iterable[str], where: str) -> Iterator[Entity]:
        """The entities of facts that fulfil a condition, sorted by id; those without a name go.

        The columns of a fact: id, kind, text; and of some vocabulary, xref (a cross-reference), and a
        place and number to sort a kind by.
        """
        rows = self.fetched(
            "SELECT id, kind, text, vocabulary, xref "
            f"FROM ({' UNION ALL BY NAME '.join(f'({query})' for query in queries)}) "
            f"WHERE {where} ORDER BY id, kind, place, number, text"
        )
        for id, group in groupby(rows, key=itemgetter(0)):
            if id is None:
                raise PelError("a row without an id", "fetch or unpack the release again")
            texts: tuple[dict[str, None], ...] = ({}, {}, {}, {}, {})
            sources, xrefs = set(), {}
            for _, kind, text, vocabulary, xref in group:
                if text is not None:
                    texts[kind][text] = None
                sources.add(vocabulary)
                xrefs[xref] = None
            names, types, definitions, parents, retired_ids = map(tuple, texts)
            if names:
                texts = names[0], names[1:], types, next(iter(definitions), None)
                others = tuple(filter(None, xrefs)), tuple(sorted(filter(None, sources)))
                yield Entity(id, *texts, (), parents, retired_ids, *others)


@contextmanager
def opened_release(
    folder: Path,
    columns: Mapping[str, str],
    files: Mapping[str, Sequence[Path]],
    delimiter: str,
) -> Iterator[Release]:
    """The tables of a folder, of which each has columns, and may have files.

    A bar, as ``delimiter``, also ends each row; with a tab, the first row names the columns. PelError if a
    file has a fault, or there is no space to sort.
    A query fails for every row of a table that is not whole, even one that is left out.
    """
    import duckdb

    with duckdb_that_sorts(folder) as connection:
        try:
            # DuckDB would make a join of a long list, and that reorders the rows.
            connection.execute("SET disabled_optimizers = 'in_clause'")
            for table, names in columns.items():
                rows = _read_csv(files.get(table, ()), names.split(), delimiter)
                connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {rows}")
            yield Release(connection)
        except duckdb.InvalidInputException as error:
            text = str(error).removeprefix("Invalid Input Error: ")
            file = re.search(r"file = (.+)", text)
            reason = " ".join(line[:80] for line in text.splitlines()[:3])
            problem = f"{file[1] if file else folder}: {reason}"
            raise PelError(problem, "fetch or unpack it again") from error


def _read_csv(files: Sequence[Path], names: list[str], delimiter: str) -> str:
    """SQL for the rows of files, in their order; PelError if one cannot be read."""
    if not files:
        return f"(SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in names)} LIMIT 0)"
    has_header = delimiter == "\t"
    for file in files:
        check_gzip(file)
        _, head = next(numbered_lines(file, MAX_ROW_BYTES), (1, ""))
        if has_header and head.split("\t") != names:
            problem = f"{file}, line 1: does not name the columns {' '.join(names)}"
            raise PelError(problem, "give the file as it was released")
    if not has_header:
        names = [*names, "AFTER"]  # what follows the last bar, that is, nothing
    kinds = ", ".join(f"{sql_identifier(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv([{', '.join(map(sql_path, files))}], columns = {{{kinds}}}, "
        f"delim = '{delimiter}', quote = '', escape = '', header = {has_header}, "
        f"auto_detect = false, max_line_size = {MAX_ROW_BYTES})"
    )


def among(column: str, texts: Iterable[str]) -> str:
    """SQL for the condition that a column is one of the texts."""
    return f"list_contains([{', '.join(map(sql_literal, texts))}]::VARCHAR[], {column})"
