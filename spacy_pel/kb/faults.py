"""Looks for damage in a KB: in its files, its records, and whatever was made of them."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PelError, readable
from ..io.whole_files import sha256
from .lookup_tables import write_tables
from .names_file import names_files
from .row_sum import noted_sum, row_sum
from .store import (
    FIELDS,
    KB_FILE,
    Settings,
    connected,
    entity_row,
    plain_file_size,
    stored_entity,
    vector_files,
)
from .transaction import CHECKSUMS

if TYPE_CHECKING:
    from .knowledge_base import KnowledgeBase

COPY_OR_BUILD = "copy the folder again, or build the KB again"

Report = Callable[[int], object]
# The words of records, as the full-text index has them.
_WORDS = "CREATE VIRTUAL TABLE temp.spelled USING fts5vocab (main, word, instance)"
_DERIVED = {
    "alternative": "SELECT id, number FROM alternative ORDER BY id, number",
    "name": "SELECT hash, number FROM name ORDER BY hash, number",
    "word": "SELECT term, doc FROM temp.spelled",
    "word_config": "SELECT k, v FROM word_config ORDER BY k",
}


def faults(kb: KnowledgeBase, progress: Report | None = None) -> list[PelError]:
    """The faults of files, or, if none has one, of what they say; PelError for one that ends the search.

    Of files that have a checksum, every byte counts. In a database that was changed since it had one, all
    rows do: its tables and indexes are whole, look-up tables are what the records give, and the other
    rows agree with their sum. What is left are bytes that SQLite does not use.
    """
    path = kb.path / KB_FILE
    checksums = {file["name"]: file["sha256"] for file in vector_files(kb.settings)}
    written = kb.path / CHECKSUMS
    with readable(kb.path):
        if plain_file_size(written) is not None:
            try:
                checksums[KB_FILE] = json.loads(written.read_bytes())[KB_FILE]["sha256"]
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise PelError(f"{written}: cannot be read", "delete it") from error
        changed = [n for n in checksums if sha256(kb.path / n, progress) != checksums[n]]
    if changed:
        fault = "does not agree with its checksum"
        return [PelError(f"{kb.path / name}: {fault}", COPY_OR_BUILD) for name in changed]
    with kb._store.reading(), _copied(path) as copy:
        fault = _fault_of_tables(copy, kb.settings)
        if fault is None and len(kb) != len(kb.numbers()):
            fault = f"counts {len(kb)} entities where there are {len(kb.numbers())}"
        if fault is None:
            _read_vectors_and_mentions(kb)
            if noted_sum(copy) not in (None, row_sum(copy)):
                fault = "its rows do not agree with their sum"
    if fault is not None:
        return [PelError(f"{path}: {fault}", COPY_OR_BUILD)]
    if names_files(kb.path, kb.names_stem):
        stored = kb.stored_names()
        if stored is None or stored.tobytes() != kb.name_table().tobytes():
            names = f"{kb.path / kb.names_stem}*"
            return [PelError(f"{names}: is not of the names of this KB", "delete it")]
    return []


def _read_vectors_and_mentions(kb: KnowledgeBase) -> None:
    """PelError if what is read of them does not fit."""
    if kb.has_vectors:
        kb.vectors.parts
    if kb.mentions:
        kb.mentions.passages()
        if kb.has_vectors:
            kb.mentions.index


@contextmanager
def _copied(path: Path) -> Iterator[sqlite3.Connection]:
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


def _fault_of_tables(copy: sqlite3.Connection, settings: Settings) -> str | None:
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
