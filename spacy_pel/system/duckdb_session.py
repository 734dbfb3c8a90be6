"""DuckDB as this package uses it: nothing is downloaded, and Ctrl-C is Ctrl-C."""

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
    """A connection to a database in memory. settings: DuckDB's own.

    Raises what DuckDB raises, but KeyboardInterrupt where a query was interrupted.
    """
    import duckdb

    # Extensions would come from the network.
    local = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    try:
        with duckdb.connect(":memory:", config={**local, **settings}) as connection:
            yield connection
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # how DuckDB passes on Ctrl-C
            raise KeyboardInterrupt from error
        raise


def sql_literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def sql_path(path: Path) -> str:
    """A file that is to be read in SQL: not a pattern, which DuckDB would take it for."""
    return sql_literal(glob.escape(str(path)))


def sql_identifier(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'
