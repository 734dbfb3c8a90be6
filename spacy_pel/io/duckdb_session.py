"""DuckDB as this package uses it: it downloads nothing, and Ctrl-C interrupts it as usual."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PelError

if TYPE_CHECKING:
    import duckdb


@contextmanager
def duckdb_connection(**settings: object) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a database in memory, with these settings of DuckDB. Errors are DuckDB's own."""
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


@contextmanager
def duckdb_that_sorts(source: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of 1 GB of memory, which sorts what is larger in a temporary folder.

    PelError if there is no space to sort ``source``. All other errors are DuckDB's own.
    """
    import duckdb

    with tempfile.TemporaryDirectory(prefix="spacy-pel-") as scratch:
        settings = {"memory_limit": "1GB", "preserve_insertion_order": True}
        with duckdb_connection(**settings, temp_directory=f"{scratch}/spilled") as connection:
            try:
                yield connection
            except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
                reason = str(error).partition("\n")[0]
                raise PelError(
                    f"{source}: cannot be sorted in {tempfile.gettempdir()} ({reason})",
                    "free some space there, or set TMPDIR to a larger folder",
                ) from error


def sql_literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_path(path: Path) -> str:
    """The path of a file to read, as an SQL literal, escaped so that it is not read as a pattern."""
    return sql_literal(glob.escape(str(path)))


def sql_identifier(name: str) -> str:
    """The name of a column as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
