"""Checksum the rows of a KB that cannot be rebuilt from its records.

The checksum is the sum of the hashes of all rows, so a change updates it by its own rows alone. Temporary
triggers see each row that a writer inserts, updates or deletes. The sum is stored in ``setting``, "sum".
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

_TABLES = ("setting", "removed", "semantic_type", "vectors", "row", "passage", "mention")
_COUNTERS = "sqlite_sequence"  # SQLite's own table, which cannot have triggers
_NAME = "sum"
_MODULUS = 1 << 64
_TRIGGERS = (
    ("INSERT", "new", 1),
    ("DELETE", "old", -1),
    ("UPDATE", "old", -1),
    ("UPDATE", "new", 1),
)


def row_sum(database: sqlite3.Connection) -> int:
    """Return the sum over all rows as they are now."""
    return sum(_table_sum(database, table) for table in (*_TABLES, _COUNTERS)) % _MODULUS


def stored_sum(database: sqlite3.Connection) -> int | None:
    """Return the stored sum; None in a KB of an older release. ValueError if it is malformed."""
    row = database.execute("SELECT value FROM setting WHERE name = ?", (_NAME,)).fetchone()
    return None if row is None else int(row[0], 16)


def store_sum(database: sqlite3.Connection, total: int) -> None:
    """Store a sum in the KB."""
    text = f"{total % _MODULUS:016x}"
    database.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (_NAME, text))


@contextmanager
def updated_sum(database: sqlite3.Connection) -> Iterator[None]:
    """Update the stored sum by what the block does to the rows of the database.

    Existing rows are not read, so the sum continues to reveal rows that were damaged before.
    """
    total = stored_sum(database)
    total = row_sum(database) if total is None else total
    total -= _table_sum(database, _COUNTERS)

    def count(sign: int, table: str, *values: object) -> None:
        nonlocal total
        total += sign * _hash(table, *values)

    database.create_function("count_row", -1, count)
    database.execute("PRAGMA recursive_triggers = ON")  # otherwise REPLACE fires no DELETE trigger
    for table in _TABLES:
        for event, row, sign in _TRIGGERS:
            values = ", ".join(f"{row}.{column}" for column in _columns(database, table))
            condition = f"WHEN {row}.name != '{_NAME}'" if table == "setting" else ""
            database.execute(
                f"CREATE TEMP TRIGGER {event}_{row}_{table} AFTER {event} ON main.{table} "
                f"{condition} BEGIN SELECT count_row({sign}, '{table}', {values}); END"
            )
    yield
    store_sum(database, total + _table_sum(database, _COUNTERS))


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]


def _table_sum(database: sqlite3.Connection, table: str) -> int:
    condition = f"WHERE name != '{_NAME}'" if table == "setting" else ""
    columns = ", ".join(_columns(database, table))
    rows = database.execute(f"SELECT {columns} FROM {table} {condition}")
    return sum(_hash(table, *row) for row in rows)


def _hash(table: str, *values: object) -> int:
    digest = blake2b(table.encode(), digest_size=8)
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode()
        digest.update(f"{type(value).__name__} {len(content)} ".encode())
        digest.update(content)
    return int.from_bytes(digest.digest(), "little")
