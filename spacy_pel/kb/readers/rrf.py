"""The UMLS, and RxNorm, in Rich Release Format: a META folder, or a folder that holds one.

Only MRCONSO is needed. ``UmlsRecipe`` says which rows count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...errors import PelError
from ...io.lines import opened_bytes
from ..records.entity import Entity
from ..records.semantic_types import SemanticType, types_meant
from .entity_source import ReadOptions, Source, SourceFormat
from .release_files import DEFINITION, NAME, PARENT, RETIRED, TYPE, Release, among, opened_release

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
_HEAD_BYTES = 1 << 16  # bytes at the start of release.dat, which has some hundred
# MedMentions ST21pv: 21 semantic types, each with its descendants, by tree number.
_ST21PV_TYPES = tuple(
    "A1.1.4 A1.1.2 A1.2 A2.1.4.1 A1.4.2 A2.2 B2.3 B2.2.1 B1.3.1 B1.3.2 A1.3.1 A2.1.5 A2.6.1 A2.7 "
    "A2.9.1 A2.9.2 A1.4.1 A1.4.3 A2.4 A2.3.1 A1.1.3".split()
)
_ST21PV_VOCABULARIES = tuple(
    "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM "
    "SNOMEDCT_US".split()
)
# scispaCy's choice: their definitions are written for people; others are often for machines.
DEFINITION_SOURCES = ("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA")


class UmlsRecipe(NamedTuple):
    """How a UMLS release is read. The defaults give what scispaCy exports (the preset "full").

    The preset "st21pv" gives the subset of MedMentions ST21pv, in English. It chooses names by MRRANK,
    as arboEL's data do: the name that the flags mark may be of no such vocabulary. None keeps all.
    """

    languages: tuple[str, ...] | None = ("ENG",)  # LAT of names; of definitions if MRSAB says it
    vocabularies: tuple[str, ...] | None = None  # SAB of names, definitions and parents
    types: tuple[str, ...] | None = None  # TUIs, names or tree numbers; also those below them
    # "flags": the first row with ISPREF=Y, TS=P and STT=PF; "rank": that of the SAB and TTY that rank
    # highest in MRRANK, if there is one
    preferred_name: str = "flags"
    definition_sources: tuple[str, ...] = DEFINITION_SOURCES  # SABs whose definitions go first

    @classmethod
    def preset(cls, name: str) -> UmlsRecipe:
        """The recipe with this name; PelError if there is none."""
        if name not in PRESETS:
            raise PelError(f"unknown preset {name!r}", f"choose one of {', '.join(PRESETS)}")
        return PRESETS[name]

    def type_codes(self, types: Sequence[SemanticType]) -> list[str]:
        """The TUIs that ``self.types`` stands for among all types of a release, and those below.

        PelError if it lacks a name or TUI. A tree number may stand for the types below it alone.
        """
        codes: set[str] = set()
        for wanted in self.types:
            meant = types_meant(wanted, types)
            if not meant and not re.fullmatch(r"[AB](\d+(\.\d+)*)?", wanted):
                problem = f"no semantic type {wanted!r} in MRSTY.RRF"
                raise PelError(problem, "give a TUI, a name or a tree number")
            codes.update(type.code for type in meant)
        return sorted(codes)


PRESETS = {
    "full": UmlsRecipe(),
    "st21pv": UmlsRecipe(("ENG",), _ST21PV_VOCABULARIES, _ST21PV_TYPES, "rank"),
}


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
    """The entities of a release, sorted by CUI or RXCUI. Files may be plain or ``.gz``.

    ``parents`` are the CUIs directly above (REL=PAR in MRREL), ``retired_ids`` those that MRCUI says
    are the same now (REL=SY), and ``xrefs`` codes with their vocabulary, such as "MSH:D009103". A CUI
    is left out if the recipe keeps none of its names. RxNorm itself names its drugs.
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
    """The folder with MRCONSO: this one, its META, or the META of its only release; else None."""
    conso = kind.files["MRCONSO"]
    for folder in (path, path / kind.folder):
        if _file(folder, conso):
            return folder
    found = [folder for folder in sorted(path.glob(f"*/{kind.folder}")) if _file(folder, conso)]
    return found[0] if len(found) == 1 else None


def _file(folder: Path, table: str) -> list[Path]:
    """The file of a table, plain or ``.gz``, if there is one."""
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
            # REL says what the second concept is to the first.
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
    # A table, because its row ids keep the order of the file.
    release.connection.execute(
        f"CREATE TABLE name AS SELECT CUI, STR, SAB, TTY, coalesce({preferred}, FALSE) AS flagged, "
        f"if(contains({code}, ':'), {code}, SAB || ':' || {code}) AS xref FROM MRCONSO WHERE {kept}"
    )
    place, ranks = "if(flagged, 0, 1)", ""
    if recipe.preferred_name == "rank":  # in MRRANK the higher number has priority
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
