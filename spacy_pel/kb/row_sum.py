"""A checksum of the rows of a KB that cannot be made again from its records.

It is the sum of a hash of each row, so a change adds and subtracts those of its own rows alone. Temporary
triggers see every row that a writer adds, changes or removes. The sum is itself a row: ``setting``, "sum".
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

# How "setting" is read. Of the others all rows count.
_TABLES = ("setting", "removed", "semantic_type", "vectors", "row", "passage", "mention")
_COUNTERS = "sqlite_sequence"  # SQLite's own; it has no triggers
_NAME = "sum"
_MODULUS = 1 << 64


def row_sum(database: sqlite3.Connection) -> int:
    """The sum of all rows, as they are now."""
    return sum(_sum_of(database, table) for table in (*_TABLES, _COUNTERS)) % _MODULUS


def noted_sum(database: sqlite3.Connection) -> int | None:
    """The sum that the last writer noted; None in a KB of an older release. ValueError for no sum."""
    row = database.execute("SELECT value FROM setting WHERE name = ?", (_NAME,)).fetchone()
    return None if row is None else int(row[0], 16)


def note_sum(database: sqlite3.Connection, total: int) -> None:
    """Notes a sum in the KB."""
    text = f"{total % _MODULUS:016x}"
    database.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (_NAME, text))


@contextmanager
def summed(database: sqlite3.Connection) -> Iterator[None]:
    """Notes the sum that results from what the block does to the rows of the database.

    Rows that were damaged before are not read, so the sum goes on telling of the damage.
    """
    total = noted_sum(database)
    total = row_sum(database) if total is None else total
    total -= _sum_of(database, _COUNTERS)

    def count(sign: int, table: str, *values: object) -> None:
        nonlocal total
        total += sign * _hash(table, *values)

    database.create_function("count_row", -1, count)
    database.execute("PRAGMA recursive_triggers = ON")  # or REPLACE would remove rows unseen
    for table in _TABLES:
        columns = _columns(database, table)
        for event, rows in ("INSERT", ["new"]), ("DELETE", ["old"]), ("UPDATE", ["old", "new"]):
            counted = "".join(
                f"SELECT count_row({1 if row == 'new' else -1}, '{table}', "
                f"{', '.join(f'{row}.{column}' for column in columns)});"
                for row in rows
            )
            only = f"WHEN {rows[0]}.name != '{_NAME}'" if table == "setting" else ""
            database.execute(
                f"CREATE TEMP TRIGGER {event}_{table} AFTER {event} ON main.{table} {only} "
                f"BEGIN {counted} END"
            )
    yield
    note_sum(database, total + _sum_of(database, _COUNTERS))


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]


def _sum_of(database: sqlite3.Connection, table: str) -> int:
    only = f"WHERE name != '{_NAME}'" if table == "setting" else ""
    columns = ", ".join(_columns(database, table))
    return sum(
        _hash(table, *row) for row in database.execute(f"SELECT {columns} FROM {table} {only}")
    )


def _hash(table: str, *values: object) -> int:
    digest = blake2b(table.encode(), digest_size=8)
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode()
        digest.update(f"{type(value).__name__} {len(content)} ".encode())
        digest.update(content)
    return int.from_bytes(digest.digest(), "little")
