"""Releases as tables in DuckDB, and the facts in them as entities: what RRF and SNOMED CT share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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


class Release(NamedTuple):
    """The tables of a release, and a DuckDB connection to query them with."""

    connection: duckdb.DuckDBPyConnection
    columns: Mapping[str, str]  # the names of the columns of each table
    files: Callable[[str], Sequence[Path]]  # of a table; none if the release lacks it
    # What parts the columns. A bar also ends each row; with a tab, the first row names the columns.
    delimiter: str

    def __contains__(self, table: str) -> bool:
        return table in self.columns and bool(self.files(table))

    def rows(self, table: str, select: str, where: str = "TRUE") -> str:
        """SQL for rows of a table, in the order of its files; PelError if one cannot be read.

        The query fails for every row that is not whole, even one that is filtered out.
        """
        files, names = self.files(table), self.columns[table].split()
        has_header = self.delimiter == "\t"
        for file in files:
            check_gzip(file)
            _, head = next(numbered_lines(file, LONGEST_ROW), (1, ""))
            if has_header and head.split("\t") != names:
                problem = f"{file}, line 1: does not name the columns {self.columns[table]}"
                raise PelError(problem, "give the file as it was released")
        names += [] if has_header else ["AFTER"]  # what follows the last bar, that is, nothing
        kinds = ", ".join(f"{sql_identifier(name)}: 'VARCHAR'" for name in names)
        return (
            f"SELECT {select} FROM read_csv([{', '.join(map(sql_path, files))}], "
            f"columns = {{{kinds}}}, delim = '{self.delimiter}', quote = '', escape = '', "
            f"header = {has_header}, auto_detect = false, max_line_size = {LONGEST_ROW}) "
            f"WHERE {where}"
        )

    def fetched(self, query: str) -> Iterator[tuple]:
        cursor = self.connection.execute(query)
        while rows := cursor.fetchmany(10_000):
            yield from rows

    def entities(self, queries: Iterable[str], where: str = "TRUE") -> Iterator[Entity]:
        """The entities of facts that fulfil a condition, sorted by id; those without a name go.

        A fact: id, kind, text, vocabulary, cross-reference, and a place and number to sort a kind by.
        """
        facts = " UNION ALL ".join(f"({query})" for query in queries)
        columns = "id, kind, text, vocabulary, xref"
        rows = self.fetched(
            f"SELECT {columns} FROM ({facts}) AS fact({columns}, place, number) "
            f"WHERE {where} ORDER BY id, kind, place, number, text"
        )
        for id, group in groupby(rows, key=itemgetter(0)):
            if id is None:
                raise PelError("a row without an id", "fetch or unpack the release again")
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
                definition, sources = next(iter(definitions), None), tuple(sorted(vocabularies))
                others = (parents, retired_ids, tuple(xrefs), sources)
                yield Entity(id, names[0], names[1:], types, definition, (), *others)


@contextmanager
def opened_release(
    folder: Path,
    columns: Mapping[str, str],
    files: Callable[[str, Path], Sequence[Path]],
    delimiter: str,
) -> Iterator[Release]:
    """The tables of a folder; PelError if a file has a fault, or there is no space to sort.

    ``files`` gives the files of a table, and may write them to the scratch folder that it is given.
    """
    import duckdb

    with duckdb_that_sorts(folder) as (connection, scratch):
        release = Release(connection, columns, lambda table: files(table, scratch), delimiter)
        try:
            yield release
        except duckdb.InvalidInputException as error:
            text = str(error).removeprefix("Invalid Input Error: ")
            file = re.search(r"file = (.+)", text)
            reason = " ".join(line[:80] for line in text.splitlines()[:3])
            problem = f"{file[1] if file else folder}: {reason}"
            raise PelError(problem, "fetch or unpack it again") from error


def among(column: str, texts: Iterable[str]) -> str:
    """SQL for the condition that a column is one of the texts."""
    # Without IN: DuckDB makes a join of a long list, and that reorders the rows.
    return f"list_contains([{', '.join(map(sql_literal, texts))}]::VARCHAR[], {column})"
