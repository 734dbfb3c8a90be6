"""The UMLS, and RxNorm, in Rich Release Format: a META folder, or a folder that holds one.

MRCONSO gives names, sources and cross-references; MRSTY types; MRDEF definitions; MRRANK the
preferred name; MRREL or MRHIER parents; MRCUI retired ids; MRSAB the languages of the vocabularies.
Only MRCONSO is needed. ``UmlsRecipe`` says which rows count.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ...errors import PelError
from ...system.lines import opened_bytes
from ..records.entity import Entity
from ..records.semantic_types import SemanticType
from .entity_source import ReadOptions, Source, SourceFormat
from .rrf_files import (
    RXNORM,
    UMLS,
    ReleaseKind,
    UmlsRelease,
    among,
    meta_folder,
    opened_release,
)
from .umls_recipe import UmlsRecipe

logger = logging.getLogger(__name__)

_LOOKED_AT = 1 << 16  # bytes at the start of release.dat, which has some hundred
# Of one entity in one vocabulary; some have the codes of hundreds of drug packages.
MOST_XREFS = 64

# The kinds of facts about a CUI. Each is a text; a name also has a vocabulary and a cross-reference.
NAME, TYPE, DEFINITION, PARENT, RETIRED = range(5)
Fact = tuple[str, int, str, str, str]  # CUI, kind, text, vocabulary, cross-reference


def read_rrf(path: Path, options: ReadOptions) -> Source:
    """The entities of a UMLS release, sorted by CUI. Files may be plain, ``.gz`` or in parts.

    The fields of an entity:

    - ``types``: the names of its semantic types, sorted.
    - ``parents``: the CUIs that a vocabulary places directly above one of its atoms (MRREL with
      REL=PAR; without MRREL, MRHIER). Broader concepts (RB) are looser, and are left out.
    - ``retired_ids``: the CUIs that MRCUI says are the same concept now (REL=SY).
    - ``xrefs``: codes with their vocabulary, such as "MSH:D009103". Codes that contain a prefix
      already stay as they are ("GO:0008150").
    - ``sources``: the SABs of the kept rows.

    A CUI is left out if the recipe keeps none of its names.

    Raises:
        PelError: MRCONSO is missing, or a row is not whole (with file and line). A fault may be met
            here or while the entities are read.
    """
    return _source(path, UMLS, options)


def read_rxnorm(path: Path, options: ReadOptions) -> Source:
    """The entities of an RxNorm release, sorted by RXCUI, from RXNCONSO and RXNSTY.

    They are made as those of the UMLS. The name is the one that RxNorm itself gives; names of other
    vocabularies are aliases, and their codes cross-references.

    Raises:
        PelError: RXNCONSO is missing, or a row is not whole (with file and line). A fault may be met
            here or while the entities are read.
    """
    return _source(path, RXNORM, options)


def _source(path: Path, kind: ReleaseKind, options: ReadOptions) -> Source:
    meta = meta_folder(path, kind)
    if meta is None:
        raise PelError(
            f"{path}: holds no {kind.files['MRCONSO']}.RRF (or .gz)",
            f"give one folder {kind.folder} of a release",
        )
    with opened_release(meta, kind) as release:
        types, version = _semantic_types(release), _version(release)
    return Source(_entities(meta, kind, options.umls, types), types, version)


def _semantic_types(release: UmlsRelease) -> tuple[SemanticType, ...]:
    if "MRSTY" not in release:
        return ()
    query = release.rows("MRSTY", "DISTINCT STY, TUI, STN")
    return tuple(SemanticType(*row) for row in release.fetched(f"{query} ORDER BY TUI, STY, STN"))


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
    return next(release.fetched(release.rows("MRSAB", "max(IMETA)")))[0]


def _entities(
    meta: Path, kind: ReleaseKind, recipe: UmlsRecipe, types: tuple[SemanticType, ...]
) -> Iterator[Entity]:
    with opened_release(meta, kind) as release:
        logger.info("%s: reading the names", meta)
        facts = release.fetched(_sorted_facts(release, recipe, types))
        for cui, group in groupby(facts, key=itemgetter(0)):
            entity = _entity(cui, group)
            if entity is not None:
                yield entity


def _entity(cui: str, facts: Iterator[Fact]) -> Entity | None:
    """The entity of the facts about a CUI; None if no name is among them."""
    texts: tuple[list[str], ...] = ([], [], [], [], [])
    vocabularies, xrefs = [], []
    for _, kind, text, vocabulary, xref in facts:
        texts[kind].append(text)
        if kind == NAME:
            vocabularies.append(vocabulary)
            xrefs.append(xref)
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
        xrefs=tuple(_first_of_each_vocabulary(filter(None, dict.fromkeys(xrefs)))),
        sources=tuple(sorted(set(filter(None, vocabularies)))),
    )


def _first_of_each_vocabulary(xrefs: Iterable[str]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for xref in xrefs:
        vocabulary = xref.partition(":")[0]
        counts[vocabulary] += 1
        if counts[vocabulary] <= MOST_XREFS:
            yield xref


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
        where += f" AND NOT {among('SAB', (sab for (sab,) in release.fetched(others)))}"
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


FORMATS = (
    SourceFormat("rrf", read_rrf, is_folder=meta_folder, folder="MRCONSO.RRF"),
    SourceFormat(
        "rxnorm", read_rxnorm, is_folder=partial(meta_folder, kind=RXNORM), folder="RXNCONSO.RRF"
    ),
)
