"""The UMLS, and RxNorm, in Rich Release Format: a META folder, or a folder that holds one.

MRCONSO gives names, sources and cross-references; MRSTY types; MRDEF definitions; MRRANK the
preferred name; MRREL parents; MRCUI retired ids; MRSAB the languages of the vocabularies. Only
MRCONSO is needed. ``UmlsRecipe`` says which rows count.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from ...errors import PelError
from ...system.lines import check_gzip, opened_bytes
from ..records.entity import Entity
from ..records.semantic_types import SemanticType
from .entity_source import ReadOptions, Source, SourceFormat
from .release_files import DEFINITION, NAME, PARENT, RETIRED, TYPE, Release, among, opened_release
from .umls_recipe import UmlsRecipe

COLUMNS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN",
    "MRRANK": "RANK SAB TTY SUPPRESS",
    "MRSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY "
    "TTYL ATNL LAT CENC CURVER SABIN SSN SCIT",
}
_LOOKED_AT = 1 << 16  # bytes at the start of release.dat, which has some hundred


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

    ``parents`` are the CUIs that a vocabulary places directly above one of its atoms (REL=PAR in
    MRREL; broader concepts, RB, are looser). ``retired_ids`` are the CUIs that MRCUI says are the
    same concept now (REL=SY). ``xrefs`` are codes with their vocabulary, such as "MSH:D009103";
    codes that contain a prefix already stay as they are ("GO:0008150"). ``sources`` are the SABs of
    the kept rows.

    A CUI is left out if the recipe keeps none of its names. The name of a drug of RxNorm is the one
    that RxNorm itself gives. The version is what release.dat names.
    """
    meta = _meta_folder(path, kind)
    if meta is None:
        problem = f"{path}: holds no {kind.files['MRCONSO']}.RRF (or .gz)"
        raise PelError(problem, f"give one folder {kind.folder} of a release")
    types: tuple[SemanticType, ...] = ()
    with _opened(meta, kind) as release:
        if "MRSTY" in release:
            rows = release.rows("MRSTY", "DISTINCT STY, TUI, STN")
            found = release.fetched(f"{rows} ORDER BY TUI, STY, STN")
            types = tuple(SemanticType(*row) for row in found)
    version = None
    if (meta / "release.dat").is_file():
        with opened_bytes(meta / "release.dat") as file:
            start = file.read(_LOOKED_AT).decode("utf-8", "replace")
        if named := re.search(r"umls\.release\.name=(\S+)", start):
            version = named[1]
    return Source(_entities(meta, kind, options.umls, types), types, version)


def _meta_folder(path: Path, kind: ReleaseKind = _UMLS) -> Path | None:
    """The folder with MRCONSO: this one, its META, or the META of its only release; else None."""
    conso = kind.files["MRCONSO"]
    for folder in (path, path / kind.folder):
        if _parts(folder, conso):
            return folder
    found = [folder for folder in sorted(path.glob(f"*/{kind.folder}")) if _parts(folder, conso)]
    return found[0] if len(found) == 1 else None


def _opened(meta: Path, kind: ReleaseKind) -> AbstractContextManager[Release]:
    def files(table: str, scratch: Path) -> list[Path]:
        """The file of a table. If it is in parts, they are put together in the scratch folder."""
        parts = _parts(meta, kind.files[table])
        if len(parts) < 2:
            return parts
        whole = scratch / f"{table}.RRF.gz"
        if not whole.exists():
            with open(whole, "wb") as file:
                for part in parts:
                    with open(part, "rb") as opened:
                        shutil.copyfileobj(opened, file, 2**20)
            try:
                check_gzip(whole)
            except PelError as error:
                problem = f"{parts[0]} to {parts[-1].name}: together they are a damaged gzip"
                raise PelError(problem, "fetch them again") from error
        return [whole]

    columns = {table: COLUMNS[table] for table in kind.files}
    return opened_release(meta, columns, files, "|")


def _parts(folder: Path, table: str) -> list[Path]:
    """The file of a table, or its parts .aa.gz, .ab.gz and so on; empty if there is no such table.

    The parts, one after another, are one gzip file, whether one stream was cut or each part was
    packed alone. PelError if a part before the last is missing.
    """
    found = {path.name: path for path in folder.glob(f"{table}.RRF*")}  # also links to nothing
    for name in (f"{table}.RRF", f"{table}.RRF.gz"):
        if name in found:
            return [found[name]]
    parts = [f"{table}.RRF.a{letter}.gz" for letter in ascii_lowercase]
    n = max((n for n, name in enumerate(parts, start=1) if name in found), default=0)
    for name in parts[:n]:
        if name not in found:
            raise PelError(f"{folder / name}: this part is missing", "download it")
    return [found[name] for name in parts[:n]]


def _entities(
    meta: Path, kind: ReleaseKind, recipe: UmlsRecipe, types: tuple[SemanticType, ...]
) -> Iterator[Entity]:
    with _opened(meta, kind) as release:
        queries = [_names(release, recipe, kind)]
        kept = _kept(recipe)
        if "MRSTY" in release:
            queries.append(release.rows("MRSTY", f"CUI, {TYPE}, STY, NULL, NULL, 0, 0"))
        if "MRDEF" in release:
            queries.append(_definitions(release, recipe))
        if "MRREL" in release:  # REL says what the second concept is to the first
            where = f"REL = 'PAR' AND CUI1 <> CUI2 AND {kept}"
            columns = f"DISTINCT CUI1, {PARENT}, CUI2, NULL, NULL, 0, 0"
            queries.append(release.rows("MRREL", columns, where))
        if "MRCUI" in release:
            columns = f"DISTINCT CUI2, {RETIRED}, CUI1, NULL, NULL, 0, 0"
            queries.append(release.rows("MRCUI", columns, "REL = 'SY' AND CUI2 IS NOT NULL"))
        where = "TRUE"
        if recipe.types is not None:
            if not types:
                raise PelError(f"{meta}: holds no MRSTY.RRF", "add it, or read all types")
            wanted = release.rows("MRSTY", "CUI", among("TUI", recipe.type_codes(types)))
            where = f"id IN ({wanted})"
        yield from release.entities(queries, where)


def _names(release: Release, recipe: UmlsRecipe, kind: ReleaseKind) -> str:
    where = _kept(recipe)
    if recipe.languages is not None:
        where += f" AND {among('LAT', recipe.languages)}"
    code = "coalesce(nullif(CODE, 'NOCODE'), SCUI)"
    columns = (
        f"CUI, STR, SAB, TTY, if(contains({code}, ':'), {code}, SAB || ':' || {code}) AS xref, "
        f"coalesce({kind.preferred}, FALSE) AS flagged"
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


def _definitions(release: Release, recipe: UmlsRecipe) -> str:
    where = _kept(recipe)
    if recipe.languages is not None and "MRSAB" in release:
        others = release.rows("MRSAB", "RSAB", f"NOT {among('LAT', recipe.languages)}")
        where += f" AND NOT {among('SAB', (sab for (sab,) in release.fetched(others)))}"
    rows = release.rows("MRDEF", "CUI, DEF, SAB", where)
    release.connection.execute(f"CREATE TABLE definition AS {rows}")
    later = f"if({among('SAB', recipe.definition_sources)}, 0, 1)"
    return f"SELECT CUI, {DEFINITION}, DEF, NULL, NULL, {later}, rowid FROM definition"


def _kept(recipe: UmlsRecipe) -> str:
    """The condition of a row by its columns SUPPRESS and SAB."""
    where = "TRUE" if recipe.suppressed else "SUPPRESS = 'N'"
    if recipe.vocabularies is not None:
        where += f" AND {among('SAB', recipe.vocabularies)}"
    return where


def _format(name: str, kind: ReleaseKind) -> SourceFormat:
    return SourceFormat(
        name,
        partial(read_rrf, kind=kind),
        is_folder=partial(_meta_folder, kind=kind),
        folder=f"{kind.files['MRCONSO']}.RRF",
    )


RRF, RXNORM = _format("rrf", _UMLS), _format("rxnorm", _RXNORM)
