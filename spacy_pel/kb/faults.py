"""Looks for damage in a KB's database: in its records, and in whatever was made of them."""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path

from ..errors import PelError
from .lookup_tables import write_tables
from .store import (
    FIELDS,
    Settings,
    connected,
    entity_row,
    stored_entity,
)

COPY_OR_BUILD = "copy the folder again, or build the KB again"

# The words of records, as the full-text index has them.
_WORDS = "CREATE VIRTUAL TABLE temp.spelled USING fts5vocab (main, word, instance)"
_DERIVED = {
    "alternative": "SELECT id, number FROM alternative ORDER BY id, number",
    "name": "SELECT hash, number FROM name ORDER BY hash, number",
    "word": "SELECT term, doc FROM temp.spelled",
    "word_config": "SELECT k, v FROM word_config ORDER BY k",
}


@contextmanager
def copied(path: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a KB's database, in memory or a scratch file: readers and writers need not wait."""
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as copy:
            with closing(connected(path)) as database:
                database.backup(copy)
            copy.execute("PRAGMA trusted_schema = OFF")
            yield copy
    except sqlite3.OperationalError as error:
        if "full" not in str(error):
            raise
        problem = f"{path}: cannot be copied to {tempfile.gettempdir()} ({error})"
        raise PelError(
            problem, "free some space there, or set TMPDIR to a larger folder"
        ) from error


def fault_of_tables(copy: sqlite3.Connection, settings: Settings) -> str | None:
    """What is wrong with the tables of a database, of which this is a copy; None for nothing.

    The error of a damaged file, if it shows itself so.
    """
    [[fault]] = copy.execute("PRAGMA integrity_check(1)")
    if fault != "ok":
        return str(fault)
    # Names that are not ASCII had other forms in older releases.
    others = set[int]()

    def rows() -> Iterator[Sequence[str | None]]:
        records = copy.execute(f"SELECT number, crc, {FIELDS} FROM entity ORDER BY number")
        for expected, (number, crc, *fields) in enumerate(records):
            if number != expected:
                raise ValueError(f"the record {expected} is missing")
            entity = stored_entity(crc, *fields)
            if not settings.get("plain_names") and not "".join(entity.names).isascii():
                others.add(number)
            yield entity_row(entity)

    with closing(sqlite3.connect("", isolation_level=None)) as made:
        write_tables(made, rows(), ())
        copy.execute("INSERT INTO word (word) VALUES ('integrity-check')")
        for database in (copy, made):
            database.execute(_WORDS)
        for table, query in _DERIVED.items():
            found, expected = (
                (row for row in database.execute(query) if row[1] not in others)
                for database in (copy, made)
            )
            if any(one != other for one, other in zip_longest(found, expected)):
                return f"its table {table!r} is not that of its records"
        for table, column in ("typed", "type"), ("sourced", "source"):
            query = f"SELECT {column}, numbers FROM {table} ORDER BY {column}, first"
            lists = (
                {
                    key: b"".join(numbers for _, numbers in group)
                    for key, group in groupby(database.execute(query), itemgetter(0))
                }
                for database in (copy, made)
            )
            if next(lists) != next(lists):
                return f"its table {table!r} is not that of its records"
    return None
