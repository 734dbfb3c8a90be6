"""The SQLite file of a KB: its tables, how they are read, and what a stranger's file may not do.

``docs/kb-format.md`` describes the tables. Rows are added and never changed: a record that leaves the
KB is listed in ``removed`` with the change that removed it. So a reader who remembers the change at
which it opened the KB goes on seeing the KB as it was, while others write.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import PelError, damaged
from .records.entity import Entity
from .settings import JOURNAL, KB_FILE, Settings, parsed_settings, plain_file_size

T = TypeVar("T")

SCHEMA = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entity (
    number INTEGER PRIMARY KEY,
    concept_id TEXT NOT NULL,
    canonical_name TEXT NOT NULL,
    aliases TEXT,
    types TEXT,
    definition TEXT,
    alt_ids TEXT,
    parents TEXT,
    retired_ids TEXT,
    xrefs TEXT,
    sources TEXT,
    crc INTEGER NOT NULL
);
CREATE TABLE removed (number INTEGER PRIMARY KEY, change INTEGER NOT NULL);
CREATE TABLE alternative (id TEXT, number INTEGER, PRIMARY KEY (id, number)) WITHOUT ROWID;
CREATE TABLE name (hash INTEGER, number INTEGER, PRIMARY KEY (hash, number)) WITHOUT ROWID;
CREATE TABLE typed (type TEXT, first INTEGER, numbers BLOB NOT NULL, PRIMARY KEY (type, first));
CREATE TABLE sourced (source TEXT, first INTEGER, numbers BLOB NOT NULL, PRIMARY KEY (source, first));
CREATE TABLE semantic_type (name TEXT NOT NULL, code TEXT, tree_number TEXT);
CREATE TABLE vectors (
    name TEXT PRIMARY KEY, owners BLOB NOT NULL, numbers BLOB, scales BLOB, axes BLOB
);
CREATE TABLE row (
    id INTEGER PRIMARY KEY AUTOINCREMENT, vectors TEXT NOT NULL, number INTEGER NOT NULL,
    vector BLOB NOT NULL
);
CREATE TABLE passage (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, document TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE TABLE mention (
    id INTEGER PRIMARY KEY AUTOINCREMENT, passage INTEGER NOT NULL, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, concept_id TEXT NOT NULL, vector BLOB
);
CREATE INDEX mention_passage ON mention (passage);
CREATE VIRTUAL TABLE word USING fts5(
    names, content='', detail=none, columnsize=0, tokenize='ascii'
);
CREATE INDEX entity_id ON entity (concept_id);
"""
FIELDS = ", ".join(Entity._fields)
POSTING = np.dtype("<i4")  # type of the numbers in the tables typed and sourced, ascending
_WAITING = 60  # seconds that a reader or writer waits for the other's moment of writing or reading
_TOGETHER = 256  # records read at a time
_MAPPED_BYTES = 1 << 31
# What a damaged file makes SQLite, JSON and numpy raise.
_DAMAGE = (sqlite3.DatabaseError, ValueError, TypeError, RecursionError, OverflowError)
# A file may come from a stranger: its schema may call no functions, and nothing is written.
_UNTRUSTED = "PRAGMA trusted_schema = OFF;"
_READING = f"{_UNTRUSTED} PRAGMA query_only = ON; PRAGMA mmap_size = {_MAPPED_BYTES};"
# All that a file defines. A view or trigger could run for ever. How FTS5 declares the tables that
# it keeps for itself depends on the release of SQLite.
_OBJECTS = """
SELECT type, name, tbl_name, iif(name GLOB 'word_*', NULL, sql) FROM sqlite_schema
"""
_JOINT_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # ends a journal that names other files


class Store:
    """Reads the SQLite file of a KB folder. Nothing is read before it is asked for.

    It may be used after a fork, because each process makes its own connection.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / KB_FILE
        # By process id, because a connection must not be used or closed on both sides of a fork.
        self._connections: dict[int, sqlite3.Connection] = {}
        self._built: str | None = None

    def close(self) -> None:
        """Closes the connection of this process. A later look-up makes a new one."""
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    def read(
        self, query: str, *parameters: object, make: Callable[..., Any] | None = None
    ) -> list[Any]:
        """All rows that a query selects, or what is made of each; PelError if the file is damaged."""
        with self.reading():
            try:
                rows = self._connection().execute(query, parameters).fetchall()
            except sqlite3.OperationalError:
                self.close()
                if not rolled_back(self.path):
                    raise
                rows = self._connection().execute(query, parameters).fetchall()
            return [make(*row) for row in rows] if make else rows

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turns what a damaged file makes SQLite, JSON and numpy raise into a PelError."""
        try:
            yield
        except (PelError, UnicodeEncodeError):
            raise
        except _DAMAGE as error:
            if "locked" in str(error):
                problem = f"{self.path}: another process is writing to it"
                raise PelError(problem, "run it again") from error
            raise damaged(self.path, f"cannot be read ({error})") from error

    def _connection(self) -> sqlite3.Connection:
        connection = self._connections.get(os.getpid())
        if connection is None:
            connection = connected(self.path, "ro")
            built = connection.execute("SELECT value FROM setting WHERE name = 'built'").fetchone()
            if self._built not in (None, built):
                connection.close()
                raise PelError(f"{self.path}: was built anew meanwhile", "open the KB again")
            self._built = built
            self._connections[os.getpid()] = connection
        return connection

    def settings(self) -> Settings:
        """What the KB says of itself; PelError if it says what no writer of KBs writes."""
        rows = self.read("SELECT value FROM setting WHERE name = 'kb'")
        return parsed_settings(self.path, rows[0][0] if rows else None)

    def numbers(self, query: str, *parameters: object) -> np.ndarray:
        """The numbers that a query selects: int64."""
        return np.array(self.read(query, *parameters, make=stored_number), dtype=np.int64)

    # Records. They include those that were removed, and those added since the KB was opened.

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The records with these numbers, in the same order; PelError if one is not there."""
        return self._chosen(numbers, f"crc, {FIELDS}", stored_entity)

    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """The concept id and canonical name of each number; PelError if one is not there."""
        columns = "concept_id, canonical_name"
        return self._chosen(numbers, columns, lambda *row: tuple(map(stored_text, row)))

    def all_entities(self, count: int) -> Iterator[tuple[int, Entity]]:
        """The records below a number, each with its number, in order of number."""
        query = f"SELECT number, crc, {FIELDS} FROM entity WHERE number BETWEEN ? AND ? ORDER BY 1"
        for first in range(0, count, _TOGETHER):
            # Page by page: an open cursor would keep writers out.
            last = min(first + _TOGETHER, count) - 1
            yield from self.read(query, first, last, make=lambda n, *row: (n, stored_entity(*row)))

    def _chosen(
        self, numbers: Sequence[int] | np.ndarray, columns: str, make: Callable[..., T]
    ) -> list[T]:
        query = (
            f"SELECT number, {columns} FROM entity WHERE number IN (SELECT value FROM json_each(?))"
        )
        wanted = np.asarray(numbers, dtype=np.int64)
        text = json.dumps(np.unique(wanted).tolist())
        chosen = dict(self.read(query, text, make=lambda number, *row: (number, make(*row))))
        try:
            return [chosen[number] for number in wanted.tolist()]
        except KeyError as error:
            raise damaged(self.path, f"lacks the record {error}") from error


def connected(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to the database of a KB; the mode is "ro", or "rw" to write.

    PelError if it is no file, or defines anything else than every KB does.
    """
    if plain_file_size(path) is None:
        raise damaged(path, "missing")
    options = {"timeout": _WAITING, "isolation_level": None, "check_same_thread": False}
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, **options)
    try:
        connection.executescript(_READING if mode == "ro" else _UNTRUSTED)
        if set(connection.execute(_OBJECTS)) != written_schema():
            raise damaged(path, "cannot be opened (its tables are not those of a KB)")
        if connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            raise damaged(path, "cannot be opened (it keeps its changes in another file)")
    except BaseException:
        connection.close()
        raise
    return connection


def rolled_back(path: Path) -> bool:
    """Takes back the change of a killed process, as SQLite's journal says; whether there was one.

    PelError if it is no journal of a KB. SQLite would delete a file that such a journal names.
    """
    journal = path.with_name(JOURNAL)
    size = plain_file_size(journal)
    if size is None:
        return False
    with open(journal, "rb") as file:
        file.seek(max(0, size - len(_JOINT_JOURNAL)))
        if file.read() == _JOINT_JOURNAL:
            raise PelError(f"{journal}: is not of a KB", "do not use this KB, or delete that file")
    with closing(connected(path, "rw")) as database:
        database.execute("SELECT count(*) FROM setting").fetchone()
    return True


@cache
def written_schema() -> set[tuple]:
    """What ``_OBJECTS`` selects of every KB."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        return set(database.execute(_OBJECTS))


def stored_text(value: object) -> str:
    """A value that must be a text; TypeError if it is none."""
    if type(value) is not str:  # a column may hold values of any type
        raise TypeError(f"{value!r} where a text belongs")
    return value


def stored_number(value: object) -> int:
    """A value that must be a whole number; TypeError if it is none."""
    if type(value) is not int:
        raise TypeError(f"{value!r} where a number belongs")
    return value


def text_or_none(value: object) -> str | None:
    """A value that must be a text or None; TypeError if it is neither."""
    return value if value is None else stored_text(value)


def record_crc(fields: Sequence[str | None]) -> int:
    """A checksum of a record's FIELDS."""
    return zlib.crc32("\x1f".join(field or "" for field in fields).encode("utf8"))


def entity_row(entity: Entity) -> list[str | None]:
    """An entity as the values of FIELDS: lists as JSON, None for an empty one."""
    return [
        f"[{','.join(map(encode_basestring, value))}]"
        if value and type(value) is tuple
        else value or None
        for value in entity
    ]


def stored_entity(crc: int, *fields: str | None) -> Entity:
    """The entity of a record; ValueError or TypeError for a damaged one."""
    id, name, aliases, types, definition, *lists = fields
    if record_crc(fields) != crc:
        raise ValueError(f"the record of {id!r} does not agree with its checksum")
    first = stored_text(id), stored_text(name), _texts(aliases), _texts(types)
    return Entity(*first, text_or_none(definition), *map(_texts, lists))


def _texts(text: str | None) -> tuple[str, ...]:
    values = json.loads(text) if text else []
    if type(values) is not list:
        raise TypeError("no list where one belongs")
    "".join(values)  # raises TypeError unless all are texts
    return tuple(values)
