"""Read the SQLite file of a KB, which may be damaged.

``docs/reference.md`` describes the folder. Records are added and never changed. ``removed`` lists the
records that have left the KB, each with the change that removed it. A reader that knows the change at which
it opened the KB continues to see that state while others write.

Columns that their names do not explain:

- ``entity``: lists are JSON. An alias with a scope is a list of the name and the scope. ``crc`` is the
  CRC-32 of the ten texts, joined by U+001F.
- ``name``: ``hash`` is the CRC-32 of a normalised name.
- ``typed``, ``sourced``: int32 ``numbers`` of records, one row for each change.
- ``vectors``: int32 ``owners`` of the rows of a file, ascending, as ranks by concept id; int32 ``numbers``
  of these ranks (NULL: the rank is the number); float32 ``scales`` of int8 rows and ``axes`` [dim,
  stored_dim] of shortened rows.
- ``row``, ``mention``: a float32 ``vector``; ``start`` and ``stop`` are character offsets in the passage.
"""

import json
import os
import re
import sqlite3
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from ..errors import PelError, damaged, readable
from ..io.whole_files import lock_for_reading
from .records.entity import SCOPES, Entity

T = TypeVar("T")
Settings = dict[str, Any]  # the description of a KB: one row of JSON

KB_FILE = "kb.sqlite"
JOURNAL = KB_FILE + "-journal"
KIND = "spacy-pel-kb"
SCHEMA_VERSION = 3
VECTOR_FILE = re.compile(r"(vectors-[0-9a-f]{16}\.npy|index-[0-9a-f]{16}\.faiss)")

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
COLUMNS = Entity._fields[: -len(SCOPES)]  # scopes are kept with the aliases
FIELDS = ", ".join(COLUMNS)
POSTING = np.dtype("<i4")  # of the numbers in the tables typed and sourced, ascending
_TIMEOUT = 60  # seconds that a reader waits for a writer's commit, or a writer for readers
# What SQLite, JSON and numpy raise for a damaged file.
_DAMAGE = (sqlite3.DatabaseError, ValueError, TypeError, RecursionError, OverflowError)
# The file may be a stranger's: its schema may call no functions.
_UNTRUSTED = "PRAGMA trusted_schema = OFF"
_JOINT_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # the end of a journal that names other files
_parsed = json.JSONDecoder().raw_decode  # a third of the time of json.loads
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass
class _Connection:
    """The connection of a process, which one thread uses at a time."""

    database: sqlite3.Connection | None = None
    lock: Lock = field(default_factory=Lock)  # threads would share cached statements

    def close(self) -> None:
        with self.lock:
            if self.database is not None:
                self.database.close()
            self.database = None


class Store:
    """Read the SQLite file of a KB folder, when data are requested.

    A store is safe for threads, also while one of them closes it, and for forks: each process opens its own
    connection.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / KB_FILE
        # By process id: a connection must not be used or closed on both sides of a fork.
        self._connections: dict[int, _Connection] = {}
        self._built: str | None = None
        self._held: list[int] = []  # descriptors of vector files
        # Not at exit: other threads may still read then.
        weakref.finalize(self, _closed, self._connections, self._held).atexit = False

    def close(self) -> None:
        """Close the files once no thread reads. A later look-up opens the database again."""
        _closed(self._connections, self._held)

    def hold(self, files: list[dict[str, Any]]) -> None:
        """Protect vector files from being deleted until the store is closed; OSError if one is gone."""
        for file in files:
            descriptor = os.open(self.path.with_name(file["name"]), os.O_RDONLY)
            self._held.append(descriptor)
            lock_for_reading(descriptor)
            if not os.fstat(descriptor).st_nlink:  # deleted before it was locked
                raise FileNotFoundError

    def read(
        self, query: str, *parameters: object, make: Callable[..., Any] | None = None
    ) -> list[Any]:
        """Return the rows of a query, each passed to ``make``; PelError if the file is damaged."""
        with self.reading():
            connection = self._connections.setdefault(os.getpid(), _Connection())
            with connection.lock:
                if connection.database is None:
                    connection.database = self._opened()
                rows = connection.database.execute(query, parameters).fetchall()
            return [make(*row) for row in rows] if make else rows

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert the errors of SQLite, JSON and numpy about damaged data to PelError."""
        try:
            yield
        except (PelError, UnicodeEncodeError):
            raise
        except _DAMAGE as error:
            if "locked" in str(error):
                problem = f"{self.path}: another process is writing to it"
                raise PelError(problem, "run it again") from error
            raise damaged(self.path, f"cannot be read ({error})") from error

    def _opened(self) -> sqlite3.Connection:
        database = connected(self.path)
        built = database.execute("SELECT value FROM setting WHERE name = 'built'").fetchone()
        if self._built not in (None, built):
            database.close()
            raise PelError(f"{self.path}: was rebuilt in the meantime", "open the KB again")
        self._built = built
        return database

    def settings(self) -> Settings:
        """Return the settings; PelError without a KB of this release that has all its files."""
        path, folder = self.path, self.path.parent
        build = f"python -m spacy pel kb build SOURCE {folder}"
        with readable(folder):
            if file_size(path) is None:
                raise PelError(f"{folder}: no knowledge base here", f"build one: {build}")
        rows = self.read("SELECT value FROM setting WHERE name = 'kb'")
        try:
            settings = json.loads(rows[0][0])
        except (IndexError, TypeError, ValueError, RecursionError):
            settings = None
        again = f"build it again: {build}"
        if not isinstance(settings, dict) or settings.get("kind") != KIND:
            raise PelError(f"{path}: is not the database of a knowledge base", again)
        version = settings.get("schema_version")
        if version != SCHEMA_VERSION:
            problem = f"{path}: schema version {version}, this release reads {SCHEMA_VERSION}"
            raise PelError(problem, again)
        for file in vector_files(settings):
            if not VECTOR_FILE.fullmatch(file["name"]):  # such as one outside of the folder
                raise PelError(f"{path}: has unreadable settings", f"do not use it; {again}")
            size = file_size(folder / file["name"])
            if size != file["bytes"]:
                fault = "missing" if size is None else f"{size} bytes, not {file['bytes']}"
                remedy = f"copy the whole folder again, or {again}"
                raise PelError(f"{folder / file['name']}: {fault}", remedy)
        return settings

    def numbers(self, query: str, *parameters: object) -> np.ndarray:
        """Return the numbers that a query selects: int64."""
        with self.reading():
            return np.array(self.read(query, *parameters), dtype=np.int64).ravel()

    # Records, including removed ones and those added since the KB was opened.

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """Return the records with these numbers, in order; PelError if one is missing."""
        return self.records(numbers, f"crc, {FIELDS}", stored_entity)

    def records(
        self, numbers: Sequence[int] | np.ndarray, columns: str, make: Callable[..., T]
    ) -> list[T]:
        """Return columns of the records with these numbers, passed to ``make``; see ``entities``."""
        records = "json_each(?) LEFT JOIN entity ON number = value ORDER BY key"
        wanted = np.asarray(numbers, dtype=np.int64).tolist()
        return self.read(f"SELECT {columns} FROM {records}", json.dumps(wanted), make=make)


def connected(path: Path, to_write: bool = False) -> sqlite3.Connection:
    """Connect to the database of a KB. SQLite rolls back what a killed process began.

    Raises:
        PelError: The file is missing, or its journal is of several databases. SQLite would delete the files
            that such a journal names.
    """
    if file_size(path) is None:
        raise damaged(path, "missing")
    journal = path.with_name(JOURNAL)
    if file_size(journal):
        with suppress(FileNotFoundError), journal.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_JOINT_JOURNAL)))
            if file.read() == _JOINT_JOURNAL:
                remedy = "do not use this KB, or delete that file"
                raise PelError(f"{journal}: is not of a KB", remedy)
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw",  # SQLite falls back to reading a read-only file
        uri=True,
        timeout=_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute(_UNTRUSTED)
    if not to_write:
        # The words of names, with the number of entities of each ("term", "doc").
        connection.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, word, row)")
        connection.execute("PRAGMA query_only = ON")
    return connection


def stored_text(value: object) -> str:
    """Return a value that must be a text; TypeError otherwise."""
    if not isinstance(value, str):  # a column of SQLite may hold any type
        raise TypeError(f"{value!r} where a text belongs")
    return value


def record_crc(fields: Sequence[str | None]) -> int:
    """Return the checksum of a record's FIELDS; TypeError if one is no text."""
    return zlib.crc32("\x1f".join(field or "" for field in fields).encode("utf8"))


def entity_row(entity: Entity) -> list[str | None]:
    """Return the values of FIELDS for an entity: lists as JSON, None for empty values."""
    scopes = entity.scopes
    aliases = tuple((name, scopes[name]) if name in scopes else name for name in entity.aliases)
    return [
        (_as_json(value) if value else None) if isinstance(value, tuple) else value or None
        for value in (*entity[:2], aliases, *entity[3 : len(COLUMNS)])
    ]


def entity_of(fields: Sequence[str | None]) -> Entity:
    """Return the entity of the values of FIELDS; ValueError or TypeError if they are malformed."""
    id, name, aliases, types, definition, *ids = fields
    lists = (tuple(_parsed(text)[0]) if text else () for text in (aliases, types, *ids))
    names, scoped = list[str](), {scope: list[str]() for scope in SCOPES}
    for alias in next(lists):
        if isinstance(alias, list):
            alias, scope = map(stored_text, alias)
            if scope not in scoped:
                raise ValueError(f"{scope!r} where a scope belongs")
            scoped[scope].append(alias)
        names.append(alias)
    id, name = stored_text(id), stored_text(name)
    in_scopes = map(tuple, scoped.values())
    return Entity(id, name, tuple(names), next(lists), definition, *lists, *in_scopes)


def stored_entity(crc: int, *fields: str | None) -> Entity:
    """Return the entity of a record; ValueError or TypeError if it is damaged."""
    if record_crc(fields) != crc:
        raise ValueError(f"the record of {fields[0]!r} does not match its checksum")
    return entity_of(fields)


def vector_files(settings: Settings) -> list[dict[str, Any]]:
    """Return the name, size and SHA-256 of each vector file."""
    vectors = settings["vectors"] or {}
    return [part["file"] for part in (vectors, vectors.get("found_by")) if part]


def _closed(connections: dict[int, _Connection], held: list[int]) -> None:
    """Close what a ``Store`` has open in this process."""
    with suppress(IndexError):  # another thread may have closed the last one
        while held:
            os.close(held.pop())  # not LOCK_UN, which would unlock the file in forked children too
    if connection := connections.get(os.getpid()):
        connection.close()


def file_size(path: Path) -> int | None:
    """Return the size of a file in bytes; None if it is missing."""
    try:
        return path.stat().st_size  # one call: a file may disappear between two
    except FileNotFoundError:
        return None
