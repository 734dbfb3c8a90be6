"""Find damage in a KB's database: in its records and in the tables derived from them."""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path

from ..errors import PelError
from .lookup_tables import write_tables
from .store import FIELDS, connected, entity_row, stored_entity

COPY_OR_BUILD = "copy the folder again, or build the KB again"

# A view of the words in the full-text index.
_WORDS = "CREATE VIRTUAL TABLE temp.spelled USING fts5vocab (main, word, instance)"
_DERIVED = {
    "alternative": "SELECT id, number FROM alternative ORDER BY id, number",
    "name": "SELECT hash, number FROM name ORDER BY hash, number",
    "word": "SELECT term, doc FROM temp.spelled",
    "word_config": "SELECT k, v FROM word_config ORDER BY k",
}


@contextmanager
def copied(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a copy of a KB's database, in memory or a scratch file, so that writers need not wait."""
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
        remedy = "free some space there, or set TMPDIR to a larger folder"
        raise PelError(problem, remedy) from error


def table_fault(copy: sqlite3.Connection) -> str | None:
    """Return the first fault of the tables in a copy of a KB's database, or None.

    Damage that stops the reading raises the error of SQLite or of the record.
    """
    [[fault]] = copy.execute("PRAGMA integrity_check(1)")
    if fault != "ok":
        return str(fault)

    def rows() -> Iterator[Sequence[str | None]]:
        records = copy.execute(f"SELECT number, crc, {FIELDS} FROM entity ORDER BY number")
        for expected, (number, crc, *fields) in enumerate(records):
            if number != expected:
                raise ValueError(f"the record {expected} is missing")
            yield entity_row(stored_entity(crc, *fields))

    with closing(sqlite3.connect("", isolation_level=None)) as made:
        write_tables(made, rows(), ())
        copy.execute("INSERT INTO word (word) VALUES ('integrity-check')")
        for database in (copy, made):
            database.execute(_WORDS)
        for table, query in _DERIVED.items():
            found, expected = (database.execute(query) for database in (copy, made))
            if any(one != other for one, other in zip_longest(found, expected)):
                return f"its table {table!r} is not that of its records"
        for table, column in ("typed", "type"), ("sourced", "source"):
            query = f"SELECT {column}, numbers FROM {table} ORDER BY {column}, first"
            if _postings(copy, query) != _postings(made, query):
                return f"its table {table!r} is not that of its records"
    return None


def _postings(database: sqlite3.Connection, query: str) -> dict[str, bytes]:
    groups = groupby(database.execute(query), itemgetter(0))
    return {key: b"".join(numbers for _, numbers in group) for key, group in groups}
