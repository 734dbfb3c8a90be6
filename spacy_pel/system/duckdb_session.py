"""DuckDB as this package uses it: it downloads nothing, and Ctrl-C interrupts it as usual."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


@contextmanager
def duckdb_connection(**settings: object) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a database in memory.

    Args:
        **settings: DuckDB's settings.

    Raises:
        KeyboardInterrupt: A query was interrupted. All other errors are DuckDB's own.
    """
    import duckdb

    # Extensions would be downloaded.
    local = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    try:
        with duckdb.connect(":memory:", config={**local, **settings}) as connection:
            yield connection
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # how DuckDB passes on Ctrl-C
            raise KeyboardInterrupt from error
        raise


def sql_literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_path(path: Path) -> str:
    """The path of a file to read, as an SQL literal, escaped so that it is not read as a pattern."""
    return sql_literal(glob.escape(str(path)))


def sql_identifier(name: str) -> str:
    """The name of a column as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
