"""The UMLS, and RxNorm, in Rich Release Format: a META folder, or a folder that holds one.

MRCONSO gives names, sources and cross-references; MRSTY types; MRDEF definitions; MRRANK the
preferred name; MRREL or MRHIER parents; MRCUI retired ids; MRSAB the languages of the vocabularies.
Only MRCONSO is needed. ``UmlsRecipe`` says which rows count.

DuckDB reads, filters and sorts the files in limited memory, several times as fast as a loop in
Python. It says little about a row that is not whole, so the file is then read again, line by line.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import PelError
from ...system.duckdb_session import duckdb_that_sorts, sql_identifier, sql_literal, sql_path
from ...system.lines import check_gzip, numbered_lines, opened_bytes
from ..records.entity import Entity
from ..records.semantic_types import SemanticType
from .entity_source import ReadOptions, Source, SourceFormat
from .umls_recipe import UmlsRecipe

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
_LOOKED_AT = 1 << 16  # bytes at the start of release.dat, which has some hundred
# Of one entity in one vocabulary; some have the codes of hundreds of drug packages.
MOST_XREFS = 64


class ReleaseKind(NamedTuple):
    """In what the releases of the UMLS and of RxNorm differ."""

    files: Mapping[str, str]  # the file of each table that is read
    preferred: str  # SQL: whether a row of MRCONSO has the name that the release prefers
    folder: str  # the folder within a release that has the files


_UMLS = ReleaseKind(
    {table: table for table in COLUMNS}, "ISPREF = 'Y' AND TS = 'P' AND STT = 'PF'", "META"
)
# Rows have the same columns. Names with these term types are synonyms of RxNorm's own name.
_RXNORM = ReleaseKind(
    {"MRCONSO": "RXNCONSO", "MRSTY": "RXNSTY"},
    "SAB = 'RXNORM' AND TTY NOT IN ('SY', 'TMSY', 'PSN', 'ET')",
    "rrf",
)


def read_rrf(path: Path, options: ReadOptions, kind: ReleaseKind = _UMLS) -> Source:
    """The entities of a release, sorted by CUI or RXCUI. Files may be plain, ``.gz`` or in parts.

    The fields of an entity:

    - ``types``: the names of its semantic types, sorted.
    - ``parents``: the CUIs that a vocabulary places directly above one of its atoms (MRREL with
      REL=PAR; without MRREL, MRHIER). Broader concepts (RB) are looser, and are left out.
    - ``retired_ids``: the CUIs that MRCUI says are the same concept now (REL=SY).
    - ``xrefs``: codes with their vocabulary, such as "MSH:D009103". Codes that contain a prefix
      already stay as they are ("GO:0008150").
    - ``sources``: the SABs of the kept rows.

    A CUI is left out if the recipe keeps none of its names. The name of a drug of RxNorm is the one
    that RxNorm itself gives.
    """
    meta = _meta_folder(path, kind)
    if meta is None:
        raise PelError(
            f"{path}: holds no {kind.files['MRCONSO']}.RRF (or .gz)",
            f"give one folder {kind.folder} of a release",
        )
    types: tuple[SemanticType, ...] = ()
    with opened_release(meta, kind) as release:
        if "MRSTY" in release:
            query = release.rows("MRSTY", "DISTINCT STY, TUI, STN")
            rows = fetched(release.connection, f"{query} ORDER BY TUI, STY, STN")
            types = tuple(SemanticType(*row) for row in rows)
        version = _version(release)
    return Source(_entities(meta, kind, options.umls, types), types, version)


def _meta_folder(path: Path, kind: ReleaseKind = _UMLS) -> Path | None:
    """The folder with MRCONSO: this one, its META, or the META of its only release; else None."""
    conso = kind.files["MRCONSO"]
    for folder in (path, path / kind.folder):
        if _parts(folder, conso):
            return folder
    found = [folder for folder in sorted(path.glob(f"*/{kind.folder}")) if _parts(folder, conso)]
    return found[0] if len(found) == 1 else None


def _version(release: UmlsRelease) -> str | None:
    """The release that release.dat names; else the last release that changed a vocabulary."""
    notes = release.meta / "release.dat"
    if notes.is_file():
        with opened_bytes(notes) as file:
            start = file.read(_LOOKED_AT).decode("utf-8", "replace")
        named = re.search(r"umls\.release\.name=(\S+)", start)
        if named:
            return named[1]
    if "MRSAB" not in release:
        return None
    return next(fetched(release.connection, release.rows("MRSAB", "max(IMETA)")))[0]


# From facts to entities

# The kinds of facts about a CUI. Each is a text; a name also has a vocabulary and a cross-reference.
NAME, TYPE, DEFINITION, PARENT, RETIRED = range(5)
Fact = tuple[str, int, str, str, str]  # CUI, kind, text, vocabulary, cross-reference


def _entities(
    meta: Path, kind: ReleaseKind, recipe: UmlsRecipe, types: tuple[SemanticType, ...]
) -> Iterator[Entity]:
    with opened_release(meta, kind) as release:
        logger.info("%s: reading the names", meta)
        facts = fetched(release.connection, _sorted_facts(release, recipe, types))
        for cui, group in groupby(facts, key=itemgetter(0)):
            entity = _entity(cui, group)
            if entity is not None:
                yield entity


def _entity(cui: str, facts: Iterator[Fact]) -> Entity | None:
    """The entity of the facts about a CUI; None if no name is among them."""
    texts: tuple[list[str], ...] = ([], [], [], [], [])
    vocabularies: set[str] = set()
    xrefs: dict[str, None] = {}
    counts: Counter[str] = Counter()
    for _, kind, text, vocabulary, xref in facts:
        texts[kind].append(text)
        if vocabulary:
            vocabularies.add(vocabulary)
        if xref and xref not in xrefs:
            prefix = xref.partition(":")[0]
            counts[prefix] += 1
            if counts[prefix] <= MOST_XREFS:
                xrefs[xref] = None
    if not texts[NAME]:
        return None
    names = tuple(dict.fromkeys(texts[NAME]))
    return Entity(
        concept_id=cui,
        canonical_name=names[0],
        aliases=names[1:],
        types=tuple(dict.fromkeys(texts[TYPE])),
        definition=texts[DEFINITION][0] if texts[DEFINITION] else None,
        parents=tuple(texts[PARENT]),
        retired_ids=tuple(texts[RETIRED]),
        xrefs=tuple(xrefs),
        sources=tuple(sorted(vocabularies)),
    )


def _sorted_facts(release: UmlsRelease, recipe: UmlsRecipe, types: tuple[SemanticType, ...]) -> str:
    """SQL for the facts, sorted by CUI and kind; within a kind the best comes first."""
    queries = [_names(release, recipe)]
    if "MRSTY" in release:
        queries.append(release.rows("MRSTY", f"CUI, {TYPE}, STY, NULL, NULL, 0, 0"))
    if "MRDEF" in release:
        queries.append(_definitions(release, recipe))
    if "MRREL" in release or "MRHIER" in release:
        queries.append(_parents(release, recipe))
    if "MRCUI" in release:
        columns = f"DISTINCT CUI2, {RETIRED}, CUI1, NULL, NULL, 0, 0"
        queries.append(release.rows("MRCUI", columns, "REL = 'SY' AND CUI2 IS NOT NULL"))
    facts = " UNION ALL ".join(f"({query})" for query in queries)
    kept = "TRUE"
    if recipe.types is not None:
        if not types:
            raise PelError(f"{release.meta}: holds no MRSTY.RRF", "add it, or read all types")
        where = among("TUI", recipe.type_codes(types))
        wanted = release.rows("MRSTY", "DISTINCT CUI", where)
        release.connection.execute(f"CREATE TABLE wanted AS {wanted}")
        kept = "cui IN (SELECT CUI FROM wanted)"
    return (
        f"SELECT cui, kind, text, vocabulary, xref FROM ({facts}) "
        "AS fact(cui, kind, text, vocabulary, xref, place, number) "
        f"WHERE {kept} ORDER BY cui, kind, place, number, text"
    )


def _names(release: UmlsRelease, recipe: UmlsRecipe) -> str:
    where = _kept(recipe)
    if recipe.languages is not None:
        where += f" AND {among('LAT', recipe.languages)}"
    code = "coalesce(nullif(CODE, 'NOCODE'), SCUI)"
    columns = (
        f"CUI, STR, SAB, TTY, if(contains({code}, ':'), {code}, SAB || ':' || {code}) AS xref, "
        f"coalesce({release.kind.preferred}, FALSE) AS flagged"
    )
    # A table, because its row ids keep the order of the file.
    names = release.rows("MRCONSO", columns, where)
    release.connection.execute(f"CREATE TABLE name AS {names}")
    selected = f"SELECT CUI, {NAME}, STR, SAB, xref, %s, name.rowid FROM name"
    if recipe.preferred_name == "flags" or "MRRANK" not in release:
        return selected % "if(flagged, 0, 1)"
    # In MRRANK the higher number has priority.
    ranks = release.rows("MRRANK", "SAB, TTY, max(try_cast(RANK AS INTEGER)) AS rank")
    return (
        f"{selected % 'if(flagged, 0, 1) - 2 * coalesce(rank, 0)'} "
        f"LEFT JOIN ({ranks} GROUP BY SAB, TTY) USING (SAB, TTY)"
    )


def _definitions(release: UmlsRelease, recipe: UmlsRecipe) -> str:
    where = _kept(recipe)
    if recipe.languages is not None and "MRSAB" in release:
        others = release.rows("MRSAB", "RSAB", f"NOT {among('LAT', recipe.languages)}")
        sabs = (sab for (sab,) in fetched(release.connection, others))
        where += f" AND NOT {among('SAB', sabs)}"
    rows = release.rows("MRDEF", "CUI, DEF, SAB", where)
    release.connection.execute(f"CREATE TABLE definition AS {rows}")
    later = f"if({among('SAB', recipe.definition_sources)}, 0, 1)"
    return f"SELECT CUI, {DEFINITION}, DEF, NULL, NULL, {later}, rowid FROM definition"


def _parents(release: UmlsRelease, recipe: UmlsRecipe) -> str:
    if "MRREL" in release:
        # REL says what the second concept is to the first.
        where = f"REL = 'PAR' AND CUI1 <> CUI2 AND {_kept(recipe)}"
        return release.rows("MRREL", f"DISTINCT CUI1, {PARENT}, CUI2, NULL, NULL, 0, 0", where)
    where = _kept(recipe._replace(suppressed=True))  # MRHIER has no SUPPRESS
    below = release.rows("MRHIER", "CUI, PAUI", f"PAUI IS NOT NULL AND {where}")
    above = release.rows("MRCONSO", "AUI, CUI")
    return (
        f"SELECT DISTINCT below.CUI, {PARENT}, above.CUI, NULL, NULL, 0, 0 FROM ({below}) AS below "
        f"JOIN ({above}) AS above ON above.AUI = below.PAUI WHERE above.CUI <> below.CUI"
    )


def _kept(recipe: UmlsRecipe) -> str:
    """The condition of a row by its columns SUPPRESS and SAB."""
    where = "TRUE" if recipe.suppressed else "SUPPRESS = 'N'"
    if recipe.vocabularies is not None:
        where += f" AND {among('SAB', recipe.vocabularies)}"
    return where


def among(column: str, texts: Iterable[str]) -> str:
    """SQL for the condition that a column, which contains no bar, is one of the texts.

    It does without IN, because DuckDB makes a join of a long list, and that reorders the rows.
    """
    texts = "".join(f"{text}|" for text in texts)
    return f"contains({sql_literal(f'|{texts}')}, '|' || {column} || '|')"


# The files as tables


@contextmanager
def opened_release(meta: Path, kind: ReleaseKind = _UMLS) -> Iterator[UmlsRelease]:
    """The tables of a folder; PelError if a file has a fault, or there is no space to sort."""
    import duckdb

    with duckdb_that_sorts(meta) as (connection, scratch):
        release = UmlsRelease(meta, kind, scratch, connection)
        try:
            yield release
        except duckdb.Error:
            for table in COLUMNS:
                if table in release.read:
                    _check_lines(table, release.file(table))
            raise


def fetched(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[tuple]:
    """The rows of a query, one at a time."""
    cursor = connection.execute(query)
    while rows := cursor.fetchmany(10_000):
        yield from rows


class UmlsRelease:
    """The tables of a release, a DuckDB connection to query them with, and which were read."""

    def __init__(
        self, meta: Path, kind: ReleaseKind, scratch: Path, connection: duckdb.DuckDBPyConnection
    ) -> None:
        self.meta = meta
        self.kind = kind
        self.scratch = scratch
        self.connection = connection
        self.read: set[str] = set()

    def __contains__(self, table: str) -> bool:
        return table in self.kind.files and bool(_parts(self.meta, self.kind.files[table]))

    def rows(self, table: str, select: str, where: str = "TRUE") -> str:
        """SQL for rows of a table, in the order of its file; PelError if it is a damaged gzip.

        The query fails for every row of the file that is not whole, even one that is filtered out.
        """
        if table not in self.read:
            parts = _parts(self.meta, self.kind.files[table])
            try:
                check_gzip(self.file(table))
            except PelError as error:
                if len(parts) == 1:
                    raise
                problem = f"{parts[0]} to {parts[-1].name}: together they are a damaged gzip"
                raise PelError(problem, "fetch them again") from error
            self.read.add(table)
        names = (*COLUMNS[table].split(), "AFTER")
        columns = ", ".join(f"{sql_identifier(name)}: 'VARCHAR'" for name in names)
        empty = [f"coalesce(trim({name}), '') = ''" for name in REQUIRED[table]]
        nul = [f"contains({name}, chr(0))" for name in REQUIRED[table]]
        broken = " OR ".join(("AFTER IS NOT NULL", *empty, *nul))
        return (
            f"SELECT {select} FROM read_csv({sql_path(self.file(table))}, "
            f"columns = {{{columns}}}, delim = '|', quote = '', escape = '', header = false, "
            f"auto_detect = false, new_line = '\\n', max_line_size = {LONGEST_ROW}) "
            f"WHERE CASE WHEN {broken} THEN error('a row is not whole') ELSE {where} END"
        )

    def file(self, table: str) -> Path:
        """The file of a table. If it is in parts, they are put together in the scratch folder."""
        parts = _parts(self.meta, self.kind.files[table])
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


def _parts(folder: Path, table: str) -> Sequence[Path]:
    """The file of a table, or its parts .aa.gz, .ab.gz and so on; empty if there is no such table.

    The parts, one after another, are one gzip file, whether one stream was cut or each part was
    packed alone. PelError if a part before the last is missing, or a file is a link to nothing.
    """

    def is_there(path: Path) -> bool:
        if not path.is_file() and os.path.lexists(path):
            kind = "a link to a file that is not there" if path.is_symlink() else "not a file"
            raise PelError(f"{path}: is {kind}", "put the file in its place, or remove it")
        return path.is_file()

    for name in (f"{table}.RRF", f"{table}.RRF.gz"):
        if is_there(folder / name):
            return [folder / name]
    parts = list(filter(is_there, sorted(folder.glob(f"{table}.RRF.a[a-z].gz"))))
    for part, letter in zip(parts, "abcdefghijklmnopqrstuvwxyz"):
        expected = f"{table}.RRF.a{letter}.gz"
        if part.name != expected:
            raise PelError(f"{folder / expected}: this part is missing", "download it")
    return parts


def _check_lines(table: str, path: Path) -> None:
    """Raises PelError for the first line that is not a whole row of the table."""
    columns = COLUMNS[table].split()
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


RRF = SourceFormat("rrf", read_rrf, is_folder=_meta_folder, folder="MRCONSO.RRF")
RXNORM = SourceFormat(
    "rxnorm",
    partial(read_rrf, kind=_RXNORM),
    is_folder=partial(_meta_folder, kind=_RXNORM),
    folder="RXNCONSO.RRF",
)
