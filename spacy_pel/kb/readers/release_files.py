"""Read a release as tables in DuckDB, and join its facts to entities; for RRF and SNOMED CT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    """The tables of a release as views of DuckDB. Missing tables are empty."""

    connection: duckdb.DuckDBPyConnection

    def fetched(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        cursor = self.connection.execute(query)
        while rows := cursor.fetchmany(10_000):
            yield from rows

    def entities(self, queries: Iterable[str], where: str) -> Iterator[Entity]:
        """Yield the entities that have a name, sorted by id.

        Args:
            queries: SQL for facts. Each has the columns id, kind (``NAME`` and so on) and text, and may
                have vocabulary, xref, and place and number, by which the facts of a kind are sorted.
            where: The SQL condition of facts to use.
        """
        rows = self.fetched(
            "SELECT id, kind, text, vocabulary, xref "
            f"FROM ({' UNION ALL BY NAME '.join(f'({query})' for query in queries)}) "
            f"WHERE {where} ORDER BY id, kind, place, number, text"
        )
        for id, group in groupby(rows, key=itemgetter(0)):
            if id is None:
                raise PelError("a row without an id", "fetch or unpack the release again")
            texts: list[dict[str, None]] = [{} for _ in range(5)]  # distinct, by kind
            sources: set[str | None] = set()
            xrefs: dict[str | None, None] = {}
            for _, kind, text, vocabulary, xref in group:
                if text is not None:
                    texts[kind][text] = None
                sources.add(vocabulary)
                xrefs[xref] = None
            names, types, definitions, parents, retired_ids = map(tuple, texts)
            if names:
                yield Entity(
                    concept_id=id,
                    canonical_name=names[0],
                    aliases=names[1:],
                    types=types,
                    definition=next(iter(definitions), None),
                    parents=parents,
                    retired_ids=retired_ids,
                    xrefs=tuple(filter(None, xrefs)),
                    sources=tuple(sorted(filter(None, sources))),
                )


@contextmanager
def opened_release(
    folder: Path,
    columns: Mapping[str, str],
    files: Mapping[str, Sequence[Path]],
    delimiter: str,
) -> Iterator[Release]:
    """Open the tables of a release.

    Args:
        folder: The folder of the release, for messages.
        columns: The names of the columns of each table, separated by blanks.
        files: The files of each table, if it has any.
        delimiter: "|", which also ends each row, or a tab, with which the first row is a header.

    Raises:
        PelError: A file has a fault, or there is no space to sort. A query fails for every malformed
            row of a table, even one that it does not select.
    """
    import duckdb

    with duckdb_that_sorts(folder) as connection:
        try:
            # DuckDB would turn a long list into a join, which reorders the rows.
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
    """Return SQL for the rows of files, in order; PelError if a file cannot be read."""
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
        names = [*names, "AFTER"]  # the empty cell after the last bar
    kinds = ", ".join(f"{sql_identifier(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv([{', '.join(map(sql_path, files))}], columns = {{{kinds}}}, "
        f"delim = '{delimiter}', quote = '', escape = '', header = {has_header}, "
        f"auto_detect = false, max_line_size = {MAX_ROW_BYTES})"
    )


def among(column: str, texts: Iterable[str]) -> str:
    """Return the SQL condition that a column is one of the texts."""
    return f"list_contains([{', '.join(map(sql_literal, texts))}]::VARCHAR[], {column})"
