"""Releases as tables in DuckDB, and the facts in them as entities: what RRF and SNOMED CT share.

DuckDB reads, filters and sorts the files in limited memory, several times as fast as a loop in
Python. It says little about a row that is not whole, so the files are then read again, line by line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import PelError
from ...system.duckdb_session import duckdb_that_sorts, sql_identifier, sql_literal, sql_path
from ...system.lines import check_gzip, numbered_lines
from ..records.entity import Entity

if TYPE_CHECKING:
    import duckdb

LONGEST_ROW = 1_000_000  # bytes
# Of one entity in one vocabulary; some have the codes of hundreds of drug packages.
MOST_XREFS = 64
# The kinds of facts about an entity.
NAME, TYPE, DEFINITION, PARENT, RETIRED = range(5)


class Release:
    """The tables of a release, and a DuckDB connection to query them with.

    Args:
        connection: The connection.
        columns: The columns of each table. Those that end in "!" must not be empty.
        files: Gives the files of a table; none if the release lacks it.
        delimiter: What parts the columns. A bar also ends each row; with a tab, the first row of a
            file names the columns.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        columns: Mapping[str, str],
        files: Callable[[str], Sequence[Path]],
        delimiter: str,
    ) -> None:
        self.connection = connection
        end = " AFTER" if delimiter == "|" else ""  # what follows the last bar, that is, nothing
        self.columns = {name: f"{c}{end}".replace("!", "").split() for name, c in columns.items()}
        self.required = {
            table: [name[:-1] for name in names.split() if name.endswith("!")]
            for table, names in columns.items()
        }
        self.files = files
        self.delimiter = delimiter
        self.read: set[str] = set()

    def __contains__(self, table: str) -> bool:
        return table in self.columns and bool(self.files(table))

    def rows(self, table: str, select: str, where: str = "TRUE") -> str:
        """SQL for rows of a table, in the order of its files; PelError if one cannot be read.

        The query fails for every row of the files that is not whole, even one that is filtered out.
        """
        files, names, has_header = self.files(table), self.columns[table], self.delimiter == "\t"
        for file in files if table not in self.read else ():
            check_gzip(file)
            _, head = next(numbered_lines(file, LONGEST_ROW), (1, ""))
            if has_header and head.split("\t") != names:
                problem = f"{file}, line 1: does not name the columns {' '.join(names)}"
                raise PelError(problem, "give the file as it was released")
        self.read.add(table)
        kinds = ", ".join(f"{sql_identifier(name)}: 'VARCHAR'" for name in names)
        broken = ["FALSE" if has_header else "AFTER IS NOT NULL"]
        for name in self.required[table]:
            broken += [f"coalesce(trim({name}), '') = ''", f"contains({name}, chr(0))"]
        return (
            f"SELECT {select} FROM read_csv([{', '.join(map(sql_path, files))}], "
            f"columns = {{{kinds}}}, delim = '{self.delimiter}', quote = '', escape = '', "
            f"header = {has_header}, auto_detect = false, "
            f"max_line_size = {LONGEST_ROW}) WHERE CASE WHEN {' OR '.join(broken)} "
            f"THEN error('a row is not whole') ELSE {where} END"
        )

    def fetched(self, query: str) -> Iterator[tuple]:
        """The rows of a query, one at a time."""
        cursor = self.connection.execute(query)
        while rows := cursor.fetchmany(10_000):
            yield from rows

    def entities(self, queries: Iterable[str], where: str = "TRUE") -> Iterator[Entity]:
        """The entities of facts that fulfil a condition, sorted by id; those without a name go.

        queries: SQL for facts: id, kind, text, vocabulary, cross-reference, and a place and a number
            by which those of a kind are sorted. All but id and kind may be NULL.
        """
        facts = " UNION ALL ".join(f"({query})" for query in queries)
        columns = "id, kind, text, vocabulary, xref"
        rows = self.fetched(
            f"SELECT {columns} FROM ({facts}) AS fact({columns}, place, number) "
            f"WHERE {where} ORDER BY id, kind, place, number, text"
        )
        for id, group in groupby(rows, key=itemgetter(0)):
            texts: tuple[dict[str, None], ...] = ({}, {}, {}, {}, {})
            vocabularies: set[str] = set()
            xrefs: dict[str, None] = {}
            counts: Counter[str] = Counter()
            for _, kind, text, vocabulary, xref in group:
                if text is not None:
                    texts[kind][text] = None
                if vocabulary:
                    vocabularies.add(vocabulary)
                if xref and xref not in xrefs:
                    prefix = xref.partition(":")[0]
                    counts[prefix] += 1
                    if counts[prefix] <= MOST_XREFS:
                        xrefs[xref] = None
            names, types, definitions, parents, retired_ids = map(tuple, texts)
            if names:
                yield Entity(
                    concept_id=id,
                    canonical_name=names[0],
                    aliases=names[1:],
                    types=types,
                    definition=definitions[0] if definitions else None,
                    parents=parents,
                    retired_ids=retired_ids,
                    xrefs=tuple(xrefs),
                    sources=tuple(sorted(vocabularies)),
                )

    def check_lines(self) -> None:
        """Raise a PelError for the first line of a file that is not a whole row of its table."""
        for file, table in [(file, name) for name in self.read for file in self.files(name)]:
            names = self.columns[table]
            whole = f"{len(names)} columns with tabs between"
            if self.delimiter == "|":
                whole = f"{len(names) - 1} columns, each ended by a bar"
            for number, line in numbered_lines(file, LONGEST_ROW):
                values = line.split(self.delimiter)
                row = dict(zip(names, values))
                fault = None
                if len(values) != len(names) or row.get("AFTER"):
                    fault = f"expected {whole}"
                elif empty := [name for name in self.required[table] if not row[name].strip()]:
                    fault = f"column {empty[0]} is empty"
                elif "\0" in line or "\r" in line:
                    fault = "a NUL byte or a carriage return within the row"
                if line and fault:
                    raise PelError(f"{file}, line {number}: {fault}", "fetch or unpack it again")


@contextmanager
def opened_release(
    folder: Path,
    columns: Mapping[str, str],
    files: Callable[[str, Path], Sequence[Path]],
    delimiter: str,
) -> Iterator[Release]:
    """The tables of a folder; PelError if a file has a fault, or there is no space to sort.

    ``files`` gives the files of a table, and may write them to the scratch folder that it is given.
    For the rest see ``Release``.
    """
    import duckdb

    with duckdb_that_sorts(folder) as (connection, scratch):
        release = Release(connection, columns, lambda table: files(table, scratch), delimiter)
        try:
            yield release
        except duckdb.Error:
            release.check_lines()
            raise


def among(column: str, texts: Iterable[str]) -> str:
    """SQL for the condition that a column is one of the texts.

    It does without IN, because DuckDB makes a join of a long list, and that reorders the rows.
    """
    return f"list_contains([{', '.join(map(sql_literal, texts))}]::VARCHAR[], {column})"
