"""Reads the records of one segment from SQLite. ``record_writing`` writes them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from json.encoder import encode_basestring
from pathlib import Path

import numpy as np

from ...errors import PelError
from ...system.damaged_files import damaged
from .entity import Entity
from .names import likeness, name_hash, normalised, words
from .semantic_types import SemanticType

SCHEMA = """
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
    sources TEXT
);
CREATE TABLE alternative (id TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE name (hash INTEGER, number INTEGER, PRIMARY KEY (hash, number)) WITHOUT ROWID;
CREATE TABLE typed (type TEXT PRIMARY KEY, numbers BLOB NOT NULL);
CREATE TABLE sourced (source TEXT PRIMARY KEY, numbers BLOB NOT NULL);
CREATE TABLE semantic_type (name TEXT NOT NULL, code TEXT, tree_number TEXT);
CREATE VIRTUAL TABLE word USING fts5(
    names, content='', detail=none, columnsize=0, tokenize='ascii'
);
"""
INDEX = "CREATE UNIQUE INDEX entity_id ON entity (concept_id);"
FIELDS = ", ".join(Entity._fields)
POSTING = np.dtype("<i4")  # type of the numbers in the tables typed and sourced, ascending
_CHOSEN = "WHERE number IN (SELECT value FROM json_each(?))"
_TOGETHER = 256  # records read at a time
# What a damaged file makes SQLite, JSON and numpy raise.
_DAMAGE = (sqlite3.DatabaseError, ValueError, TypeError, RecursionError, OverflowError)
_MAPPED_BYTES = 1 << 31
# A file may come from a stranger: its schema may call no functions, and nothing is written.
_PRAGMAS = f"""
PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA mmap_size = {_MAPPED_BYTES};
"""
# All that a file defines. A view or trigger could run for ever. How FTS5 declares the tables that
# it keeps for itself depends on the release of SQLite.
_OBJECTS = """
SELECT type, name, tbl_name, iif(name GLOB 'word_*', NULL, sql) FROM sqlite_schema
"""
# The most records that a full-text look-up compares with its text.
_COMPARED = 10_000


class EntityStore:
    """A read-only file of entities, numbered from 0 in order of concept id.

    Nothing is read before it is asked for. The store may be used after a fork, because each process
    makes its own connection.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # By process id, because a connection must not be used or closed on both sides of a fork.
        self._connections: dict[int, sqlite3.Connection] = {}

    def number(self, id: str) -> int | None:
        """The number of the entity with this concept id, or None."""
        return self._first("SELECT number FROM entity WHERE concept_id = ?", id)

    def alternative(self, id: str) -> int | None:
        """The number of the entity with this alternative or retired id, or None."""
        return self._first("SELECT number FROM alternative WHERE id = ?", id)

    def entities(self, numbers: Sequence[int] | np.ndarray) -> list[Entity]:
        """The entities with these numbers, in the same order; IndexError for an unknown number."""
        query = f"SELECT number, {FIELDS} FROM entity {_CHOSEN}"
        with self._reading():
            chosen = {number: _entity(fields) for number, *fields in self._chosen(query, numbers)}
        return _in_order(chosen, numbers)

    def labels(self, numbers: Sequence[int] | np.ndarray) -> list[tuple[str, str]]:
        """The concept id and canonical name of each number; IndexError for an unknown number."""
        query = f"SELECT number, concept_id, canonical_name FROM entity {_CHOSEN}"
        with self._reading():
            chosen = {n: (_text(id), _text(name)) for n, id, name in self._chosen(query, numbers)}
        return _in_order(chosen, numbers)

    def __iter__(self) -> Iterator[Entity]:
        """All entities, in order of number."""
        query = f"SELECT {FIELDS} FROM entity ORDER BY number"
        with closing(self._connection.execute(query)) as rows:
            while True:
                with self._reading():
                    entities = [_entity(fields) for fields in rows.fetchmany(_TOGETHER)]
                if not entities:
                    return
                yield from entities

    def named(self, name: str, exact: bool) -> list[int]:
        """The entities with this name, ascending. Unless exact, names are compared as normalised."""
        key = normalised(name)
        query = "SELECT number FROM name WHERE hash = ?"
        numbers = self._numbers(query, name_hash(key))
        return [
            number
            for number, entity in zip(numbers, self._known(numbers))
            if (name in entity.names if exact else key in map(normalised, entity.names))
        ]

    def found(self, query: str, limit: int) -> list[tuple[int, float]]:
        """The entities whose names contain all words of the query, by their most similar name.

        If more than 10,000 entities match, only the first 10,000 are compared, and those that have
        the query as a name.

        Args:
            query: A text.
            limit: The most entities to return.

        Returns:
            Pairs (number, likeness), sorted by likeness, highest first, then by number.
        """
        matched = " ".join(f'"{word}"' for word in words(query))
        if not matched:
            numbers = self.named(query, exact=False)
        else:
            sql = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid LIMIT ?"
            matching = self._numbers(sql, matched, _COMPARED)
            numbers = sorted({*matching, *self.named(query, exact=False)})
        ranked = [
            (max(likeness(query, name) for name in entity.names), number)
            for number, entity in zip(numbers, self._known(numbers))
        ]
        ranked.sort(key=lambda pair: (-pair[0], pair[1]))
        return [(number, rank) for rank, number in ranked[:limit]]

    def of_types(self, names: Collection[str]) -> np.ndarray:
        """The entities with any of these types, without types below them: int64, ascending."""
        return self._posted("SELECT numbers FROM typed WHERE type = ?", names)

    def of_sources(self, names: Collection[str]) -> np.ndarray:
        """The entities that come from any of these sources: int64, ascending."""
        return self._posted("SELECT numbers FROM sourced WHERE source = ?", names)

    def semantic_types(self) -> list[SemanticType]:
        """The types that the source defined, then those that only entities name."""
        with self._reading():
            given = self._connection.execute("SELECT * FROM semantic_type ORDER BY rowid")
            types = [SemanticType(_text(name), *map(_text_or_none, row)) for name, *row in given]
            named = self._connection.execute("SELECT type FROM typed ORDER BY type")
            names = [_text(name) for (name,) in named]
        known = {type.name for type in types}
        return types + [SemanticType(name) for name in names if name not in known]

    def sources(self) -> list[str]:
        """The sources that entities name, sorted."""
        with self._reading():
            rows = self._connection.execute("SELECT source FROM sourced ORDER BY 1")
            return [_text(name) for (name,) in rows]

    def has_codes(self, vocabulary: str) -> bool:
        """Whether an entity has an identifier in this vocabulary; see ``Entity.codes``."""
        escaped = re.sub(r"([\\%_])", r"\\\1", f"{vocabulary}:")
        query = (
            r"SELECT number FROM entity WHERE xrefs LIKE ?1 ESCAPE '\' OR alt_ids LIKE ?1 ESCAPE '\' "
            r"OR concept_id LIKE ?2 ESCAPE '\' LIMIT 1"
        )
        return bool(self._numbers(query, f'%"{escaped}%', f"{escaped}%"))

    def close(self) -> None:
        """Closes the connection of this process. A later look-up makes a new one."""
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    def _first(self, query: str, id: str) -> int | None:
        try:
            numbers = self._numbers(query, id)
        except UnicodeEncodeError:  # a lone surrogate, which no id has
            return None
        return numbers[0] if numbers else None

    def _numbers(self, query: str, *parameters: str | int) -> list[int]:
        """The numbers that a query selects."""
        with self._reading():
            rows = self._connection.execute(query, parameters).fetchall()
            return [_number(number) for (number,) in rows]

    def _known(self, numbers: Sequence[int]) -> list[Entity]:
        """The entities with numbers that were read from the file itself."""
        try:
            return self.entities(numbers)
        except IndexError as error:
            raise damaged(self.path, f"names a record that is not there ({error})") from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turns what a damaged file makes SQLite, JSON and numpy raise into a PelError."""
        try:
            yield
        except (PelError, UnicodeEncodeError):
            raise
        except _DAMAGE as error:
            raise damaged(self.path, f"cannot be read ({error})") from error

    def _posted(self, query: str, keys: Collection[str]) -> np.ndarray:
        with self._reading():
            rows = [self._connection.execute(query, (key,)).fetchone() for key in sorted(set(keys))]
            postings = [np.frombuffer(row[0], POSTING) for row in rows if row]
        if not postings:
            return np.empty(0, dtype=np.int64)
        return np.unique(np.concatenate(postings)).astype(np.int64)

    def _chosen(self, query: str, numbers: Sequence[int] | np.ndarray) -> sqlite3.Cursor:
        distinct = np.unique(np.asarray(numbers, dtype=np.int64))
        return self._connection.execute(query, (json.dumps(distinct.tolist()),))

    @property
    def _connection(self) -> sqlite3.Connection:
        connection = self._connections.get(os.getpid())
        if connection is None:
            connection = self._connections[os.getpid()] = self._connected()
        return connection

    def _connected(self) -> sqlite3.Connection:
        # Immutable: the file never changes, so SQLite needs no locks and looks for no journal.
        uri = f"{self.path.resolve().as_uri()}?mode=ro&immutable=1"
        try:
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            connection.executescript(_PRAGMAS)
            schema = set(connection.execute(_OBJECTS))
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, f"cannot be opened ({error})") from error
        if schema != _written_schema():
            connection.close()
            raise damaged(self.path, "cannot be opened (its tables are not those of a KB)")
        return connection


@cache
def _written_schema() -> set[tuple]:
    """The tables and indexes of every file of records, as ``_OBJECTS`` selects them."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA + INDEX)
        return set(database.execute(_OBJECTS))


def _entity(fields: Sequence[str | None]) -> Entity:
    id, name, aliases, types, definition, *others = fields
    return Entity(
        _text(id),
        _text(name),
        _texts(aliases),
        _texts(types),
        _text_or_none(definition),
        *map(_texts, others),
    )


def _texts(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    values = json.loads(text)
    if type(values) is not list:
        raise TypeError("no list where one belongs")
    "".join(values)  # raises TypeError unless all are texts
    return tuple(values)


def _text(value: object) -> str:
    if type(value) is not str:  # SQLite stores a value of any type in a column
        raise TypeError(f"{value!r} where a text belongs")
    return value


def _text_or_none(value: object) -> str | None:
    return value if value is None else _text(value)


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} where a number belongs")
    return value


def as_json(texts: Sequence[str]) -> str | None:
    """A list of texts as it is stored: JSON, or None if the list is empty."""
    return f"[{','.join(map(encode_basestring, texts))}]" if texts else None


def _in_order(chosen: dict, numbers: Sequence[int] | np.ndarray) -> list:
    try:
        return [chosen[int(number)] for number in numbers]
    except KeyError as error:
        raise IndexError(f"no entity has the number {error.args[0]}") from error
