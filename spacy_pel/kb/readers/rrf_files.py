"""The files of a UMLS META folder, or of RxNorm, as tables of DuckDB, and the faults of files that it refuses.

DuckDB reads, filters and sorts them in limited memory, several times as fast as a loop in Python.
It says little about a row that is not whole, so the file is then read again, line by line.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import PelError
from ...system.duckdb_session import duckdb_that_sorts, sql_identifier, sql_literal, sql_path
from ...system.lines import check_gzip, numbered_lines

if TYPE_CHECKING:
    import duckdb

logger = logging.getLogger(__name__)

COLUMNS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRHIER": "CUI AUI CXN PAUI SAB RELA PTR HCD CVF",
    "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN",
    "MRRANK": "RANK SAB TTY SUPPRESS",
    "MRSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY "
    "TTYL ATNL LAT CENC CURVER SABIN SSN SCIT",
}
# The columns that must not be empty.
REQUIRED = {
    "MRCONSO": ("CUI", "STR"),
    "MRSTY": ("CUI", "TUI", "STY"),
    "MRDEF": ("CUI", "DEF"),
    "MRREL": ("CUI1", "REL", "CUI2"),
    "MRHIER": ("CUI", "AUI"),
    "MRCUI": ("CUI1", "REL"),
    "MRRANK": ("RANK", "SAB", "TTY"),
    "MRSAB": ("RSAB",),
}
LONGEST_ROW = 1_000_000  # bytes


class ReleaseKind(NamedTuple):
    """In what the releases of the UMLS and of RxNorm differ.

    Attributes:
        files: The name of the file of each table, of those that are read.
        preferred: SQL: whether a row of MRCONSO has the name that the release prefers.
        folder: The folder within a release that has the files.
    """

    files: Mapping[str, str]
    preferred: str
    folder: str


UMLS = ReleaseKind(
    {table: table for table in COLUMNS}, "ISPREF = 'Y' AND TS = 'P' AND STT = 'PF'", "META"
)
# Rows have the same columns. Names with these term types are synonyms of RxNorm's own name.
RXNORM = ReleaseKind(
    {"MRCONSO": "RXNCONSO", "MRSTY": "RXNSTY"},
    "SAB = 'RXNORM' AND TTY NOT IN ('SY', 'TMSY', 'PSN', 'ET')",
    "rrf",
)


def meta_folder(path: Path, kind: ReleaseKind = UMLS) -> Path | None:
    """The folder with MRCONSO: this one, its META, or the META of its only release; else None."""
    conso = kind.files["MRCONSO"]
    for folder in (path, path / kind.folder):
        if _parts(folder, conso):
            return folder
    found = [folder for folder in sorted(path.glob(f"*/{kind.folder}")) if _parts(folder, conso)]
    return found[0] if len(found) == 1 else None


@contextmanager
def opened_release(meta: Path, kind: ReleaseKind = UMLS) -> Iterator[UmlsRelease]:
    """The tables of a META folder, or of a folder of RxNorm. Scratch files go to the system's folder for temporary files.

    Raises:
        PelError: A file has a fault, or there is no space to sort.
    """
    import duckdb

    with duckdb_that_sorts(meta) as (connection, scratch):
        release = UmlsRelease(meta, kind, scratch, connection)
        try:
            yield release
        except duckdb.Error:
            release.raise_fault()
            raise


class UmlsRelease:
    """The tables of a release, and a DuckDB connection to query them with."""

    def __init__(
        self, meta: Path, kind: ReleaseKind, scratch: Path, connection: duckdb.DuckDBPyConnection
    ) -> None:
        self.meta = meta
        self.kind = kind
        self.scratch = scratch
        self.connection = connection
        self._read: set[str] = set()

    def __contains__(self, table: str) -> bool:
        return table in self.kind.files and bool(self._parts(table))

    def rows(self, table: str, select: str, where: str = "TRUE") -> str:
        """SQL for rows of a table, in the order of its file.

        The query fails for every row of the file that is not whole, even one that is filtered out.

        Args:
            table: The table, for example "MRSTY".
            select: The columns, in SQL.
            where: The condition of the rows, in SQL.

        Raises:
            PelError: The file is a damaged gzip.
        """
        if table not in self._read:
            self._check_gzip(table)
            self._read.add(table)
        columns = ", ".join(
            f"{sql_identifier(name)}: 'VARCHAR'" for name in (*_columns(table), "AFTER")
        )
        empty = [f"coalesce(trim({name}), '') = ''" for name in REQUIRED[table]]
        nul = [f"contains({name}, chr(0))" for name in REQUIRED[table]]
        broken = " OR ".join(("AFTER IS NOT NULL", *empty, *nul))
        return (
            f"SELECT {select} FROM read_csv({sql_path(self._file(table))}, "
            f"columns = {{{columns}}}, delim = '|', quote = '', escape = '', header = false, "
            f"auto_detect = false, new_line = '\\n', max_line_size = {LONGEST_ROW}) "
            f"WHERE CASE WHEN {broken} THEN error('a row is not whole') ELSE {where} END"
        )

    def fetched(self, query: str) -> Iterator[tuple]:
        """The rows of a query, one at a time."""
        cursor = self.connection.execute(query)
        while rows := cursor.fetchmany(10_000):
            yield from rows

    def raise_fault(self) -> None:
        """Raises PelError, with file and line, for the first fault of the files read so far."""
        for table in COLUMNS:
            if table in self._read:
                _check_lines(table, self._file(table))

    def _check_gzip(self, table: str) -> None:
        parts = self._parts(table)
        try:
            check_gzip(self._file(table))
        except PelError as error:
            if len(parts) == 1:
                raise
            raise PelError(
                f"{parts[0]} to {parts[-1].name}: together they are a damaged gzip",
                "fetch them again",
            ) from error

    def _file(self, table: str) -> Path:
        """The file of a table. If it is in parts, they are put together in the scratch folder."""
        parts = self._parts(table)
        if len(parts) == 1:
            return parts[0]
        whole = self.scratch / f"{table}.RRF.gz"
        if not whole.exists():
            logger.info("putting together %s", ", ".join(part.name for part in parts))
            with open(whole, "wb") as file:
                for part in parts:
                    with open(part, "rb") as opened:
                        shutil.copyfileobj(opened, file, 2**20)
        return whole

    def _parts(self, table: str) -> list[Path]:
        return _parts(self.meta, self.kind.files[table])


def _parts(folder: Path, table: str) -> list[Path]:
    """The file of a table, or its parts .aa.gz, .ab.gz and so on; empty if there is no such table.

    The parts, one after another, are one gzip file, whether one stream was cut or each part was
    packed alone. PelError if a part before the last is missing, or a file is a link to nothing.
    """
    for name in (f"{table}.RRF", f"{table}.RRF.gz"):
        if (folder / name).is_file():
            return [folder / name]
        _refuse_other(folder / name)
    parts = sorted(folder.glob(f"{table}.RRF.a[a-z].gz"))
    for part in parts:
        if not part.is_file():
            _refuse_other(part)
    for part, letter in zip(parts, "abcdefghijklmnopqrstuvwxyz"):
        expected = f"{table}.RRF.a{letter}.gz"
        if part.name != expected:
            raise PelError(f"{folder / expected}: this part is missing", "download it")
    return parts


def _refuse_other(path: Path) -> None:
    """Raises PelError if what has the name of a file is a link to nothing, or no file."""
    if os.path.lexists(path):
        kind = "a link to a file that is not there" if path.is_symlink() else "not a file"
        raise PelError(f"{path}: is {kind}", "put the file in its place, or remove it")


def _check_lines(table: str, path: Path) -> None:
    """Raises PelError for the first line that is not a whole row of the table."""
    columns = _columns(table)
    for number, line in numbered_lines(path, LONGEST_ROW):
        if not line:
            continue
        place = f"{path}, line {number}"
        values = line.split("|")
        if len(values) != len(columns) + 1 or values[-1]:
            raise PelError(
                f"{place}: expected {len(columns)} columns, each ended by a bar, found "
                f"{line.count('|')} bars",
                "fetch or unpack the file again",
            )
        row = dict(zip(columns, values))
        for column in REQUIRED[table]:
            if not row[column].strip():
                raise PelError(f"{place}: column {column} is empty", "correct the row")
        for character, name in (("\0", "NUL byte"), ("\r", "carriage return")):
            if character in line:
                raise PelError(f"{place}: a {name} within the row", "remove it")


def _columns(table: str) -> Sequence[str]:
    return COLUMNS[table].split()


def among(column: str, texts: Iterable[str]) -> str:
    """SQL for the condition that a column, which contains no bar, is one of the texts.

    It does without IN, because DuckDB makes a join of a long list, and that reorders the rows.
    """
    texts = "".join(f"{text}|" for text in texts)
    return f"contains({sql_literal(f'|{texts}')}, '|' || {column} || '|')"
