"""The UMLS, and RxNorm, in Rich Release Format: a META folder, or a folder that holds one.

Only MRCONSO is needed. ``UmlsRecipe`` says which rows count.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from ...errors import PelError
from ...system.lines import check_gzip, opened_bytes
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
_LOOKED_AT = 1 << 16  # bytes at the start of release.dat, which has some hundred


# MedMentions ST21pv: 21 semantic types, each with its descendants, by tree number.
ST21PV_TYPES = (
    "A1.1.4 A1.1.2 A1.2 A2.1.4.1 A1.4.2 A2.2 B2.3 B2.2.1 B1.3.1 B1.3.2 A1.3.1 A2.1.5 A2.6.1 A2.7 "
    "A2.9.1 A2.9.2 A1.4.1 A1.4.3 A2.4 A2.3.1 A1.1.3"
).split()
ST21PV_VOCABULARIES = (
    "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM "
    "SNOMEDCT_US"
).split()
# scispaCy's choice: their definitions are written for people; others are often for machines.
DEFINITION_SOURCES = ("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA")


class UmlsRecipe(NamedTuple):
    """How a UMLS release is read. The defaults give what scispaCy exports (the preset "full").

    The preset "st21pv" gives the subset of MedMentions ST21pv: 21 types with their descendants, 18
    vocabularies, English, no suppressed rows. It chooses names by MRRANK, as arboEL's data do: the
    name that the flags mark may be of no such vocabulary. None keeps all.
    """

    languages: tuple[str, ...] | None = ("ENG",)  # LAT of names; of definitions if MRSAB says it
    vocabularies: tuple[str, ...] | None = None  # SAB of names, definitions and parents
    types: tuple[str, ...] | None = None  # TUIs, names or tree numbers; also those below them
    suppressed: bool = False  # whether rows with a SUPPRESS other than N are kept
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


_ST21PV = UmlsRecipe(("ENG",), tuple(ST21PV_VOCABULARIES), tuple(ST21PV_TYPES), False, "rank")
PRESETS = {"full": UmlsRecipe(), "st21pv": _ST21PV}


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

    ``parents`` are the CUIs directly above (REL=PAR in MRREL), ``retired_ids`` those that MRCUI says
    are the same now (REL=SY), and ``xrefs`` codes with their vocabulary, such as "MSH:D009103". A CUI
    is left out if the recipe keeps none of its names. RxNorm itself names its drugs.
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
    named = None
    if (meta / "release.dat").is_file():
        with opened_bytes(meta / "release.dat") as file:
            named = re.search(rb"umls\.release\.name=(\S+)", file.read(_LOOKED_AT))
    version = named[1].decode("utf-8", "replace") if named else None
    return Source(_entities(meta, kind, options.umls or UmlsRecipe(), types), types, version)


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
    """The file of a table, or its parts .aa.gz, .ab.gz and so on, which together are one gzip file.

    PelError if a part before the last is missing.
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


RRF, RXNORM = (
    SourceFormat(
        name,
        partial(read_rrf, kind=kind),
        is_folder=partial(_meta_folder, kind=kind),
        folder=f"{kind.files['MRCONSO']}.RRF",
    )
    for name, kind in (("rrf", _UMLS), ("rxnorm", _RXNORM))
)
