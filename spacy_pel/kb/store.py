"""Entities in SQLite: read here, written by ``staging``."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from ..errors import PelError
from .entity import Entity

SCHEMA = """
CREATE TABLE entity (
    number INTEGER PRIMARY KEY,
    concept_id TEXT NOT NULL,
    canonical_name TEXT NOT NULL,
    aliases TEXT NOT NULL,
    types TEXT NOT NULL,
    definition TEXT,
    alt_ids TEXT NOT NULL
);
CREATE TABLE identifier (id TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
"""
_FIELDS = "concept_id, canonical_name, aliases, types, definition, alt_ids"
_CHOSEN = "WHERE number IN (SELECT value FROM json_each(?))"
_MAPPED_BYTES = 1 << 31


class EntityStore:
    """Read-only view of a file of entities; usable after a fork, since each process connects."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # By process id: a connection must be neither used nor closed on the other side of a fork.
        self._connections: dict[int, sqlite3.Connection] = {}

    def number(self, id: str) -> int | None:
        """The number of the entity with this concept id or alternative id, or None."""
        query = "SELECT number FROM identifier WHERE id = ?"
        row = self._connection.execute(query, (id,)).fetchone()
        return row[0] if row else None

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        """The entities of these numbers, in their order; IndexError for an unknown number."""
        query = f"SELECT number, {_FIELDS} FROM entity {_CHOSEN}"
        chosen = {number: _entity(fields) for number, *fields in self._chosen(query, numbers)}
        return _in_order(chosen, numbers)

    def labels(self, numbers: Sequence[int]) -> list[tuple[str, str]]:
        """Pairs (concept id, canonical name) of these numbers; IndexError for an unknown one."""
        query = f"SELECT number, concept_id, canonical_name FROM entity {_CHOSEN}"
        chosen = {number: (id, name) for number, id, name in self._chosen(query, numbers)}
        return _in_order(chosen, numbers)

    def __iter__(self) -> Iterator[Entity]:
        query = f"SELECT {_FIELDS} FROM entity ORDER BY number"
        with closing(self._connection.execute(query)) as rows:
            for fields in rows:
                yield _entity(fields)

    def close(self) -> None:
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    def _chosen(self, query: str, numbers: Sequence[int]) -> sqlite3.Cursor:
        return self._connection.execute(query, (json.dumps(sorted(set(map(int, numbers)))),))

    @property
    def _connection(self) -> sqlite3.Connection:
        connection = self._connections.get(os.getpid())
        if connection is None:
            connection = self._connections[os.getpid()] = self._connected()
        return connection

    def _connected(self) -> sqlite3.Connection:
        # Immutable: the file never changes under its name, so no locks and no journal look-ups.
        uri = f"{self.path.resolve().as_uri()}?mode=ro&immutable=1"
        try:
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
            connection.execute("SELECT 1 FROM entity LIMIT 1")
        except sqlite3.DatabaseError as error:
            raise PelError(
                f"{self.path}: cannot be opened ({error}); if the KB was built again, open it "
                "again; else copy the folder again"
            ) from error
        return connection


def _entity(fields: Sequence[str]) -> Entity:
    concept_id, canonical_name, aliases, types, definition, alt_ids = fields
    return Entity(
        concept_id=concept_id,
        canonical_name=canonical_name,
        aliases=tuple(json.loads(aliases)),
        types=tuple(json.loads(types)),
        definition=definition,
        alt_ids=tuple(json.loads(alt_ids)),
    )


def _in_order(chosen: dict, numbers: Sequence[int]) -> list:
    try:
        return [chosen[number] for number in map(int, numbers)]
    except KeyError as error:
        raise IndexError(f"no entity has the number {error.args[0]}") from error
