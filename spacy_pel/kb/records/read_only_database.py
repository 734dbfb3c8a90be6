"""A SQLite file of a KB, opened only to be read. It may come from a stranger."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import ClassVar

from ...errors import PelError
from ...system.damaged_files import damaged

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


class ReadOnlyDatabase:
    """A file with the tables of one schema. Nothing is read before it is asked for.

    It may be used after a fork, because each process makes its own connection.

    Attributes:
        schema: The SQL that made the tables. A file with others is refused.
        path: The file.
    """

    schema: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        # By process id, because a connection must not be used or closed on both sides of a fork.
        self._connections: dict[int, sqlite3.Connection] = {}

    def close(self) -> None:
        """Closes the connection of this process. A later look-up makes a new one."""
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turns what a damaged file makes SQLite, JSON and numpy raise into a PelError."""
        try:
            yield
        except (PelError, UnicodeEncodeError):
            raise
        except _DAMAGE as error:
            raise damaged(self.path, f"cannot be read ({error})") from error

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
        if schema != _written_schema(self.schema):
            connection.close()
            raise damaged(self.path, "cannot be opened (its tables are not those of a KB)")
        return connection


@cache
def _written_schema(schema: str) -> set[tuple]:
    """The tables and indexes of every file with this schema, as ``_OBJECTS`` selects them."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(schema)
        return set(database.execute(_OBJECTS))


def stored_text(value: object) -> str:
    """A value that must be a text; TypeError if it is none."""
    if type(value) is not str:  # SQLite stores a value of any type in a column
        raise TypeError(f"{value!r} where a text belongs")
    return value


def stored_number(value: object) -> int:
    """A value that must be a whole number; TypeError if it is none."""
    if type(value) is not int:
        raise TypeError(f"{value!r} where a number belongs")
    return value
