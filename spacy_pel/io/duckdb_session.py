"""DuckDB connections that download nothing and that Ctrl-C interrupts as usual."""

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
def duckdb_connection(**settings: str | int) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to a database in memory, with settings of DuckDB. Errors are those of DuckDB."""
    import duckdb

    # Extensions would be downloaded.
    settings |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    try:
        with duckdb.connect(":memory:", config={**settings}) as connection:
            yield connection
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # DuckDB's form of Ctrl-C
            raise KeyboardInterrupt from error
        raise


@contextmanager
def duckdb_that_sorts(source: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to DuckDB with 1 GB of memory and a temporary folder, to sort the file ``source``.

    Raises:
        PelError: The temporary folder has no space. All other errors are those of DuckDB.
    """
    import duckdb

    with (
        tempfile.TemporaryDirectory(prefix="spacy-pel-") as scratch,
        duckdb_connection(
            memory_limit="1GB", preserve_insertion_order=True, temp_directory=f"{scratch}/spilled"
        ) as connection,
    ):
        try:
            yield connection
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            reason = str(error).partition("\n")[0]
            raise PelError(
                f"{source}: cannot be sorted in {tempfile.gettempdir()} ({reason})",
                "free some space there, or set TMPDIR to a larger folder",
            ) from error


def sql_literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_path(path: Path) -> str:
    """Return the path of an input file as an SQL literal with escaped wildcards."""
    return sql_literal(glob.escape(str(path)))


def sql_identifier(name: str) -> str:
    """Return the name of a column as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
