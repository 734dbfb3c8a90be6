"""DuckDB as this package uses it: it downloads nothing, and Ctrl-C interrupts it as usual."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PelError

if TYPE_CHECKING:
    import duckdb

MOST_TEXT = 2**29
_ROWS_AT_ONCE = 2_048  # a vector of DuckDB


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


def check_texts(connection: duckdb.DuckDBPyConnection, path: Path, columns: Iterable[str]) -> None:
    """Raise PelError for a Parquet file whose texts, in the columns to be read, would fill the memory.

    A text that many rows have is stored once: 0.5 MB may hold texts of 6 GB. DuckDB copies the texts
    of 2,048 rows at a time, but makes no copies to measure them.
    """
    connection.execute(f"DESCRIBE SELECT * FROM read_parquet({sql_path(path)})")
    texts = {name for name, kind, *_ in connection.fetchall() if kind == "VARCHAR"}
    sizes = [f"coalesce(strlen({sql_identifier(name)}), 0)" for name in columns if name in texts]
    if not sizes:
        return
    rows = f"read_parquet({sql_path(path)}, file_row_number = true)"
    groups = f"{rows} GROUP BY file_row_number // {_ROWS_AT_ONCE}"
    connection.execute(f"SELECT max(n) FROM (SELECT sum({' + '.join(sizes)}) AS n FROM {groups})")
    if (connection.fetchone()[0] or 0) > MOST_TEXT:
        raise PelError(
            f"{_ROWS_AT_ONCE:,} rows of more than {MOST_TEXT:,} bytes of text",
            "write it as JSONL, which is read row by row",
        )


def sql_literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_path(path: Path) -> str:
    """The path of a file to read, as an SQL literal, escaped so that it is not read as a pattern."""
    return sql_literal(glob.escape(str(path)))


def sql_identifier(name: str) -> str:
    """The name of a column as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
