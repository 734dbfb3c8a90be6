"""The SQLite file of a KB: its tables, how they are read, and what a stranger's file may not do.

``docs/kb-format.md`` describes the tables. Rows are added and never changed: a record that leaves the
KB is listed in ``removed`` with the change that removed it. So a reader who remembers the change at
which it opened the KB goes on seeing the KB as it was, while others write.
"""

import json
import os
import re
import sqlite3
import stat
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from ..errors import PelError, damaged, readable
from ..io.whole_files import lock_for_reading
from .records.entity import Entity

T = TypeVar("T")
Settings = dict[str, Any]  # what a KB says of itself: one row of JSON

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
FIELDS = ", ".join(Entity._fields)
POSTING = np.dtype("<i4")  # type of the numbers in the tables typed and sourced, ascending
_WAITING = 60  # seconds that a reader or writer waits for the other's moment of writing or reading
# What a damaged file makes SQLite, JSON and numpy raise.
_DAMAGE = (sqlite3.DatabaseError, ValueError, TypeError, RecursionError, OverflowError)
# A file may come from a stranger: its schema may call no functions, and nothing is written.
_UNTRUSTED = "PRAGMA trusted_schema = OFF;"
_READING = f"{_UNTRUSTED} PRAGMA query_only = ON;"
# All that a file defines. A view or trigger could run for ever. How FTS5 declares the tables that
# it keeps for itself depends on the release of SQLite.
_OBJECTS = """
SELECT type, name, tbl_name, iif(name GLOB 'word_*', NULL, sql) FROM sqlite_schema
"""
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # a link may have come after the folder was checked
_JOINT_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # ends a journal that names other files


@dataclass
class _Connection:
    """A connection to the database, or the place of one, which one thread uses at a time."""

    database: sqlite3.Connection | None = None
    lock: Lock = field(default_factory=Lock)  # two threads would bind the same cached statement

    def close(self) -> None:
        with self.lock:
            if self.database is not None:
                self.database.close()
            self.database = None


class Store:
    """Reads the SQLite file of a KB folder. Nothing is read before it is asked for.

    Several threads may use it, also while one of them closes it. It may be used after a fork, because
    each process makes its own connection.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / KB_FILE
        # By process id, because a connection must not be used or closed on both sides of a fork.
        self._connections: dict[int, _Connection] = {}
        self._built: str | None = None
        self._held: list[int] = []  # descriptors of files of vectors
        # When nobody uses this any more. At the end of the program another thread may still read.
        weakref.finalize(self, _closed, self._connections, self._held).atexit = False

    def close(self) -> None:
        """Closes the files, when no thread reads any more. A later look-up opens the database again."""
        _closed(self._connections, self._held)

    def hold(self, files: list[dict[str, Any]]) -> None:
        """Keeps files of vectors from being swept, until this is closed; OSError if one is gone."""
        for file in files:
            descriptor = os.open(self.path.with_name(file["name"]), os.O_RDONLY | _NO_LINK)
            self._held.append(descriptor)
            lock_for_reading(descriptor)
            if not os.fstat(descriptor).st_nlink:  # swept before the lock was there
                raise FileNotFoundError

    def read(
        self, query: str, *parameters: object, make: Callable[..., Any] | None = None
    ) -> list[Any]:
        """All rows that a query selects, or what is made of each; PelError if the file is damaged."""
        with self.reading():
            connection = self._connections.setdefault(os.getpid(), _Connection())
            with connection.lock:
                if connection.database is None:
                    connection.database = self._opened()
                rows = connection.database.execute(query, parameters).fetchall()
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

    def _opened(self) -> sqlite3.Connection:
        database = connected(self.path)
        built = database.execute("SELECT value FROM setting WHERE name = 'built'").fetchone()
        if self._built not in (None, built):
            database.close()
            raise PelError(f"{self.path}: was built anew meanwhile", "open the KB again")
        self._built = built
        return database

    def settings(self) -> Settings:
        """What the KB says of itself.

        PelError if there is no KB, it says what no writer of this release writes, or lacks a file.
        """
        path, folder = self.path, self.path.parent
        build = f"python -m spacy pel kb build SOURCE {folder}"
        with readable(folder):
            if plain_file_size(path) is None:
                raise PelError(f"{folder}: no knowledge base here", f"build one: {build}")
            check_plain(folder)
        rows = self.read("SELECT value FROM setting WHERE name = 'kb'")
        try:
            settings = _renamed(json.loads(rows[0][0], parse_int=_natural))
        except (IndexError, TypeError, ValueError, RecursionError):
            settings = None
        again = f"build it again: {build}"
        if not isinstance(settings, dict) or settings.get("kind") != KIND:
            raise PelError(f"{path}: is not the database of a knowledge base", again)
        version = settings.get("schema_version")
        if version != SCHEMA_VERSION:
            problem = f"{path}: schema version {version}, this release reads {SCHEMA_VERSION}"
            raise PelError(problem, again)
        # A record takes more than a byte. Memory is reserved for this many entities.
        if not _is_known(settings) or settings["next_number"] > path.stat().st_size:
            raise PelError(f"{path}: describes itself in no known way", f"do not use it; {again}")
        for file in vector_files(settings):
            found = plain_file_size(folder / file["name"])
            if found != file["bytes"]:
                fault = "missing" if found is None else f"{found} bytes, not {file['bytes']}"
                remedy = f"copy the whole folder again, or {again}"
                raise PelError(f"{folder / file['name']}: {fault}", remedy)
        return settings

    def numbers(self, query: str, *parameters: object) -> np.ndarray:
        """The numbers that a query selects: int64."""
        with self.reading():
            return np.array(self.read(query, *parameters), dtype=np.int64).ravel()

    # Records. They include those that were removed, and those added since the KB was opened.

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The records with these numbers, in the same order; PelError if one is not there."""
        return self.records(numbers, f"crc, {FIELDS}", stored_entity)

    def records(
        self, numbers: Sequence[int] | np.ndarray, columns: str, make: Callable[..., T]
    ) -> list[T]:
        """What is made of columns of the records with these numbers; errors as of ``entities``."""
        found = "json_each(?) LEFT JOIN entity ON number = value ORDER BY key"
        wanted = np.asarray(numbers, dtype=np.int64).tolist()
        return self.read(f"SELECT {columns} FROM {found}", json.dumps(wanted), make=make)


def connected(path: Path, to_write: bool = False) -> sqlite3.Connection:
    """A connection to the database of a KB. SQLite takes back what a killed process began.

    PelError if it is no file, defines anything else than every KB does, or a journal beside it is that
    of several databases: SQLite would delete the files that such a journal names.
    """
    if plain_file_size(path) is None:
        raise damaged(path, "missing")
    journal = path.with_name(JOURNAL)
    if plain_file_size(journal):
        with suppress(FileNotFoundError), open(journal, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_JOINT_JOURNAL)))
            if file.read() == _JOINT_JOURNAL:
                remedy = "do not use this KB, or delete that file"
                raise PelError(f"{journal}: is not of a KB", remedy)
    options = {"timeout": _WAITING, "isolation_level": None, "check_same_thread": False}
    # Where the file cannot be written to, SQLite opens it to read.
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, **options)
    try:
        connection.executescript(_UNTRUSTED if to_write else _READING)
        if set(connection.execute(_OBJECTS)) != written_schema():
            raise damaged(path, "cannot be opened (its tables are not those of a KB)")
        if connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            raise damaged(path, "cannot be opened (it keeps its changes in another file)")
    except BaseException:
        connection.close()
        raise
    return connection


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


def record_crc(fields: Sequence[str | None]) -> int:
    """A checksum of a record's FIELDS; TypeError if one is no text."""
    return zlib.crc32("\x1f".join(field or "" for field in fields).encode("utf8"))


def entity_row(entity: Entity) -> list[str | None]:
    """An entity as the values of FIELDS: lists as JSON, None for an empty one."""
    return [
        _as_json(value) if value and type(value) is tuple else value or None for value in entity
    ]


def entity_of(fields: Sequence[str | None]) -> Entity:
    """The entity of the values of FIELDS; ValueError or TypeError for no such values."""
    id, name, aliases, types, definition, *others = fields
    aliases, types, *others = (tuple(json.loads(x)) if x else () for x in (aliases, types, *others))
    return Entity(id, name, aliases, types, definition, *others)


def stored_entity(crc: int, *fields: str | None) -> Entity:
    """The entity of a record; ValueError or TypeError for a damaged one."""
    if record_crc(fields) != crc:
        raise ValueError(f"the record of {fields[0]!r} does not agree with its checksum")
    return entity_of(fields)


def vector_files(settings: Settings) -> list[dict[str, Any]]:
    """What the settings say of each file of vectors: its name, size and SHA-256."""
    vectors = settings["vectors"] or {}
    return [part["file"] for part in (vectors, vectors.get("found_by")) if part]


def _closed(connections: dict[int, _Connection], held: list[int]) -> None:
    """Closes what a ``Store`` has open in this process."""
    with suppress(IndexError):  # once all are closed
        while True:
            # It does not unlock (LOCK_UN), which would take the lock from forked children as well.
            os.close(held.pop())
    if connection := connections.get(os.getpid()):
        connection.close()


def check_plain(folder: Path) -> None:
    """Raises PelError for a link or a device in a KB folder, at any depth: it could lead out of it."""
    with suppress(FileNotFoundError):  # a writer removes what it no longer needs
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                check_plain(folder / entry.name)
            elif not entry.is_file(follow_symlinks=False):
                plain_file_size(folder / entry.name)


def plain_file_size(path: Path) -> int | None:
    """The size of a file of a KB, in bytes; None if it is missing; PelError if it is no plain file."""
    try:
        status = path.lstat()  # once: a journal may go between two looks
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        problem = f"{path}: is a symbolic link, a folder or a device, which a KB does not contain"
        raise PelError(problem, "copy the KB with its files in place of links (cp -rL)")
    return status.st_size


def _natural(text: str) -> int:
    if text.startswith("-"):
        raise ValueError(f"{text} where nothing is negative")
    return int(text)


def _renamed(settings: Any) -> Any:
    """Translate old names of settings, UNTIL PACKAGE 0.8: the KB of package 0.7 has ``row_kind``."""
    if isinstance(settings, dict) and isinstance(vectors := settings.get("vectors"), dict):
        if "row_kind" in vectors:
            vectors["index_unit"] = vectors.pop("row_kind")
    return settings


def _is_known(settings: dict[str, Any]) -> bool:
    """Whether settings have the form in which this release writes them."""
    # fmt: off
    match settings:
        case {
            "created_by": str(), "sources": list(sources), "counts": {"entities": int(), **counts},
            "change": int(), "next_number": int(), "in_order": int(), "checksum": str(),
            "vectors": None | {
                "file": {"name": str(), "sha256": str(), "bytes": int()},
                "dim": int(), "stored_dim": int(), "dtype": str(), "index": str(), "index_unit": str(),
                "fingerprint": str(), "stored_rows": int(), "rows": int(),
                "found_by": None
                | {"kind": "PQ4", "file": {"name": str(), "sha256": str(), "bytes": int()}, "oversampling": int()}
                | {"kind": "SQ8", "file": {"name": str(), "sha256": str(), "bytes": int()}, "probes": int()},
            },
            "mentions": None | {
                "weight": float(), "level": float(), "fingerprint": None | str(), "counts": dict(),
            },
        }:
            learnt = (settings["mentions"] or {"counts": {}})["counts"]
            found_by = (settings["vectors"] or {}).get("found_by") or {"kind": None}
            effort = found_by.get("probes" if found_by["kind"] == "SQ8" else "oversampling", 1)
            return (
                all(type(source) is str for source in sources)
                and all(type(count) is int for count in (*counts.values(), *learnt.values()))
                and 0 < effort < 1 << 31
                and all(VECTOR_FILE.fullmatch(file["name"]) for file in vector_files(settings))
            )
    # fmt: on
    return False
