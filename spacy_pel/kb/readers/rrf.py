"""The UMLS and RxNorm in Rich Release Format: a META folder, or a folder that contains one.

Only MRCONSO is required. ``UmlsRecipe`` selects the rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...errors import PelError
from ...io.lines import opened_bytes
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
_HEAD_BYTES = 1 << 16  # of release.dat, which has a few hundred


class ReleaseKind(NamedTuple):
    """The differences between the releases of the UMLS and of RxNorm."""

    files: Mapping[str, str]  # the file of each table that is read
    preferred: str  # the SQL condition of preferred names in MRCONSO
    folder: str  # the folder of the files within a release


_UMLS = ReleaseKind(
    {table: table for table in COLUMNS}, "ISPREF = 'Y' AND TS = 'P' AND STT = 'PF'", "META"
)
# The columns are the same. Names with these term types are synonyms of RxNorm's preferred name.
_RXNORM = ReleaseKind(
    {"MRCONSO": "RXNCONSO", "MRSTY": "RXNSTY"},
    "SAB = 'RXNORM' AND TTY NOT IN ('SY', 'TMSY', 'PSN', 'ET')",
    "rrf",
)


def read_rrf(path: Path, options: ReadOptions, kind: ReleaseKind = _UMLS) -> Source:
    """Read the entities of a release, sorted by CUI or RXCUI. Files may be plain or ``.gz``.

    ``parents`` are the CUIs directly above (REL=PAR in MRREL). ``retired_ids`` are the CUIs that became this
    CUI (REL=SY in MRCUI). ``xrefs`` are codes with their vocabulary, such as "MSH:D009103". A CUI without a
    name that the recipe keeps is left out. In RxNorm, the preferred names are those of RxNorm itself.
    """
    meta = _meta_folder(path, kind)
    if meta is None:
        problem = f"{path}: holds no {kind.files['MRCONSO']}.RRF (or .gz)"
        raise PelError(problem, f"give one folder {kind.folder} of a release")
    files = {"MRSTY": _file(meta, kind.files["MRSTY"])}
    with opened_release(meta, COLUMNS, files, "|") as release:
        query = "SELECT DISTINCT STY, TUI, STN FROM MRSTY ORDER BY TUI, STY, STN"
        types = tuple(SemanticType(*row) for row in release.fetched(query))
    version = None
    if (meta / "release.dat").is_file():
        with opened_bytes(meta / "release.dat") as file:
            if named := re.search(rb"umls\.release\.name=(\S+)", file.read(_HEAD_BYTES)):
                version = named[1].decode("utf-8", "replace")
    return Source(_entities(meta, kind, options.umls or UmlsRecipe(), types), types, version)


def _meta_folder(path: Path, kind: ReleaseKind = _UMLS) -> Path | None:
    """Return the folder with MRCONSO: this one, its META, or the META of its only release; else None."""
    conso = kind.files["MRCONSO"]
    for folder in (path, path / kind.folder):
        if _file(folder, conso):
            return folder
    releases = [folder for folder in path.glob(f"*/{kind.folder}") if _file(folder, conso)]
    return releases[0] if len(releases) == 1 else None


def _file(folder: Path, table: str) -> list[Path]:
    """Return the file of a table, plain or ``.gz``, or an empty list."""
    paths = (folder / f"{table}.RRF", folder / f"{table}.RRF.gz")
    return list(filter(os.path.lexists, paths))[:1]


def _entities(
    meta: Path, kind: ReleaseKind, recipe: UmlsRecipe, types: tuple[SemanticType, ...]
) -> Iterator[Entity]:
    kept, where = "SUPPRESS = 'N'", "TRUE"
    if recipe.vocabularies is not None:
        kept += f" AND {among('SAB', recipe.vocabularies)}"
    if recipe.types is not None:
        if not types:
            raise PelError(f"{meta}: holds no MRSTY.RRF", "add it, or read all types")
        wanted = among("TUI", recipe.type_codes(types))
        where = f"id IN (SELECT CUI FROM MRSTY WHERE {wanted})"
    files = {table: _file(meta, name) for table, name in kind.files.items()}
    with opened_release(meta, COLUMNS, files, "|") as release:
        queries = (
            _names(release, recipe, kind.preferred, kept),
            f"SELECT CUI AS id, {TYPE} AS kind, STY AS text FROM MRSTY",
            _definitions(release, recipe, kept),
            # REL is the relation of the second concept to the first.
            f"SELECT DISTINCT CUI1 AS id, {PARENT} AS kind, CUI2 AS text FROM MRREL "
            f"WHERE REL = 'PAR' AND CUI1 <> CUI2 AND {kept}",
            f"SELECT DISTINCT CUI2 AS id, {RETIRED} AS kind, CUI1 AS text FROM MRCUI "
            "WHERE REL = 'SY' AND CUI2 IS NOT NULL",
        )
        yield from release.entities(queries, where)


def _names(release: Release, recipe: UmlsRecipe, preferred: str, kept: str) -> str:
    if recipe.languages is not None:
        kept += f" AND {among('LAT', recipe.languages)}"
    code = "coalesce(nullif(CODE, 'NOCODE'), SCUI)"
    # Row ids of a table keep the order of the file.
    release.connection.execute(
        f"CREATE TABLE name AS SELECT CUI, STR, SAB, TTY, coalesce({preferred}, FALSE) AS flagged, "
        f"if(contains({code}, ':'), {code}, SAB || ':' || {code}) AS xref FROM MRCONSO WHERE {kept}"
    )
    place, ranks = "if(flagged, 0, 1)", ""
    if recipe.preferred_name == "rank":  # higher numbers have priority in MRRANK
        place += " - 2 * coalesce(rank, 0)"
        ranks = (
            "LEFT JOIN (SELECT SAB, TTY, max(try_cast(RANK AS INTEGER)) AS rank FROM MRRANK "
            "GROUP BY SAB, TTY) USING (SAB, TTY)"
        )
    return (
        f"SELECT CUI AS id, {NAME} AS kind, STR AS text, SAB AS vocabulary, xref, "
        f"{place} AS place, name.rowid AS number FROM name {ranks}"
    )


def _definitions(release: Release, recipe: UmlsRecipe, kept: str) -> str:
    if recipe.languages is not None:
        query = f"SELECT RSAB FROM MRSAB WHERE NOT {among('LAT', recipe.languages)}"
        if foreign := [sab for (sab,) in release.fetched(query)]:
            kept += f" AND NOT {among('SAB', foreign)}"
    release.connection.execute(
        f"CREATE TABLE definition AS SELECT CUI, DEF, SAB FROM MRDEF WHERE {kept}"
    )
    later = f"if({among('SAB', recipe.definition_sources)}, 0, 1)"
    return (
        f"SELECT CUI AS id, {DEFINITION} AS kind, DEF AS text, {later} AS place, rowid AS number "
        "FROM definition"
    )


RRF, RXNORM = (
    SourceFormat(
        name,
        partial(read_rrf, kind=kind),
        is_folder=partial(_meta_folder, kind=kind),
        folder=f"{kind.files['MRCONSO']}.RRF",
    )
    for name, kind in (("rrf", _UMLS), ("rxnorm", _RXNORM))
)
