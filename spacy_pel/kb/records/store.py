"""Reads the records of one segment from SQLite. ``record_writing`` writes them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from json.encoder import encode_basestring

import numpy as np

from ...system.damaged_files import damaged
from .entity import Entity
from .names import likeness, name_hash, normalised, words
from .read_only_database import ReadOnlyDatabase, stored_number, stored_text
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
# The most records that a full-text look-up compares with its text.
_COMPARED = 10_000


class EntityStore(ReadOnlyDatabase):
    """A read-only file of entities, numbered from 0 in order of concept id."""

    schema = SCHEMA + INDEX

    def number(self, id: str) -> int | None:
        """The number of the entity with this concept id, or None."""
        return self._first("SELECT number FROM entity WHERE concept_id = ?", id)

    def numbers(self, ids: Sequence[str]) -> np.ndarray:
        """The number of the entity with each of these concept ids: int64; -1 for no entity."""
        query = (
            "SELECT key, number FROM json_each(?) JOIN entity ON concept_id = value ORDER BY key"
        )
        numbers = np.full(len(ids), -1, dtype=np.int64)
        with self._reading():
            for place, number in self._connection.execute(query, (json.dumps(list(ids)),)):
                numbers[stored_number(place)] = stored_number(number)
        return numbers

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
            chosen = {
                n: (stored_text(id), stored_text(name))
                for n, id, name in self._chosen(query, numbers)
            }
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
            types = [
                SemanticType(stored_text(name), *map(_text_or_none, row)) for name, *row in given
            ]
            named = self._connection.execute("SELECT type FROM typed ORDER BY type")
            names = [stored_text(name) for (name,) in named]
        known = {type.name for type in types}
        return types + [SemanticType(name) for name in names if name not in known]

    def sources(self) -> list[str]:
        """The sources that entities name, sorted."""
        with self._reading():
            rows = self._connection.execute("SELECT source FROM sourced ORDER BY 1")
            return [stored_text(name) for (name,) in rows]

    def has_codes(self, vocabulary: str) -> bool:
        """Whether an entity has an identifier in this vocabulary; see ``Entity.codes``."""
        escaped = re.sub(r"([\\%_])", r"\\\1", f"{vocabulary}:")
        query = (
            r"SELECT number FROM entity WHERE xrefs LIKE ?1 ESCAPE '\' OR alt_ids LIKE ?1 ESCAPE '\' "
            r"OR concept_id LIKE ?2 ESCAPE '\' LIMIT 1"
        )
        return bool(self._numbers(query, f'%"{escaped}%', f"{escaped}%"))

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
            return [stored_number(number) for (number,) in rows]

    def _known(self, numbers: Sequence[int]) -> list[Entity]:
        """The entities with numbers that were read from the file itself."""
        try:
            return self.entities(numbers)
        except IndexError as error:
            raise damaged(self.path, f"names a record that is not there ({error})") from error

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


def _entity(fields: Sequence[str | None]) -> Entity:
    id, name, aliases, types, definition, *others = fields
    return Entity(
        stored_text(id),
        stored_text(name),
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


def _text_or_none(value: object) -> str | None:
    return value if value is None else stored_text(value)


def as_json(texts: Sequence[str]) -> str | None:
    """A list of texts as it is stored: JSON, or None if the list is empty."""
    return f"[{','.join(map(encode_basestring, texts))}]" if texts else None


def _in_order(chosen: dict, numbers: Sequence[int] | np.ndarray) -> list:
    try:
        return [chosen[int(number)] for number in numbers]
    except KeyError as error:
        raise IndexError(f"no entity has the number {error.args[0]}") from error
