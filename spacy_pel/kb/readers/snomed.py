"""SNOMED CT in Release Format 2 (RF2): the snapshot of a release.

Concept and Description files are needed. TextDefinition, Relationship and three kinds of reference
sets are read if they are there: Language for preferred names, Association for what replaces inactive
concepts, ExtendedMap for codes of ICD-10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from ...errors import PelError
from ...system.duckdb_session import duckdb_that_sorts, sql_path
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .entity_source import ReadOptions, Source, SourceFormat
from .rrf import fetched

SOURCE = "SNOMEDCT"
_ROW = "id effectiveTime active moduleId"
_MEMBER = f"{_ROW} refsetId referencedComponentId"
_DESCRIPTION = f"{_ROW} conceptId languageCode typeId term caseSignificanceId"
# The columns of each kind of file, and how the names of such files begin.
COLUMNS = {
    "sct2_Concept_Snapshot": f"{_ROW} definitionStatusId",
    "sct2_Description_Snapshot": _DESCRIPTION,
    "sct2_TextDefinition_Snapshot": _DESCRIPTION,
    "sct2_Relationship_Snapshot": f"{_ROW} sourceId destinationId relationshipGroup typeId "
    "characteristicTypeId modifierId",
    "der2_cRefset_LanguageSnapshot": f"{_MEMBER} acceptabilityId",
    "der2_cRefset_AssociationSnapshot": f"{_MEMBER} targetComponentId",
    "der2_iisssccRefset_ExtendedMapSnapshot": f"{_MEMBER} mapGroup mapPriority mapRule mapAdvice "
    "mapTarget correlationId mapCategoryId",
}
(
    CONCEPT, DESCRIPTION, TEXT_DEFINITION, RELATIONSHIP, LANGUAGE, ASSOCIATION, EXTENDED_MAP,
) = COLUMNS  # fmt: skip
_IS_A = "116680003"
_IS_FULL = "typeId = '900000000000003001'"  # "Multiple sclerosis (disorder)"
_PREFERRED = "900000000000548007"
_ENGLISH_OF_THE_US = "900000000000509007"
_REPLACED_BY = "('900000000000526001', '900000000000527005')"  # REPLACED BY, SAME AS
_MAPS = {"447562003": "ICD10", "6011000124106": "ICD10CM"}  # by reference set
_TAG = r"\s*\(([^()]*)\)\s*$"

# The kinds of facts about a concept.
NAME, TYPE, DEFINITION_TEXT, PARENT, RETIRED, XREF = range(6)


def read_snomed(path: Path, options: ReadOptions) -> Source:
    """The active concepts of a release, sorted by id as text.

    The name is the preferred term, in English of the US if there is a choice; without a preferred
    term it is the fully specified name without its tag. The tag is the type ("disorder"). Aliases
    are all other active English descriptions, or those of all languages if none is English. Parents
    are "is a" relationships. An inactive concept that exactly one active concept replaces, or is the
    same as, gives that one its id as a retired id. Cross-references are the targets of the maps to
    ICD-10 ("ICD10") and ICD-10-CM ("ICD10CM"). Such a map may depend on rules about the patient, so
    there may be several codes. The version is the date in the name of the Concept file.
    """
    folder = _snapshot_folder(path)
    if folder is None:
        raise PelError(f"{path}: holds no {CONCEPT}_*.txt", "give an unpacked release of SNOMED CT")
    files = {kind: sorted(folder.rglob(f"{kind}*.txt")) for kind in COLUMNS}
    if not files[DESCRIPTION]:
        raise PelError(f"{folder}: holds no {DESCRIPTION}-*.txt", "unpack the whole release")
    for kind, found in files.items():
        for file in found:
            _, header = next(numbered_lines(file), (1, ""))
            if header.split("\t") != COLUMNS[kind].split():
                problem = f"{file}, line 1: does not name the columns of RF2"
                raise PelError(problem, "give the file as it was released")
    date = re.search(r"_(\d{8})\.txt$", files[CONCEPT][0].name)
    return Source(_entities(folder, files), version=date[1] if date else None)


def _snapshot_folder(path: Path) -> Path | None:
    """The folder of a release's snapshot: this one, or the first one in it; None without one."""
    folders = [path, path / "Snapshot", *sorted(path.glob("*/Snapshot"))]
    pattern = f"{CONCEPT}*.txt"
    found = [f for f in folders if any(f.glob(pattern)) or any((f / "Terminology").glob(pattern))]
    return found[0] if found else None


def _entities(folder: Path, files: dict[str, list[Path]]) -> Iterator[Entity]:
    import duckdb

    with duckdb_that_sorts(folder) as (connection, _):
        try:
            active = _rows(files[CONCEPT], CONCEPT, "id")
            connection.execute(f"CREATE TABLE concept AS {active}")
            described = _rows(
                _english(files[DESCRIPTION]), DESCRIPTION, "id, conceptId, typeId, term"
            )
            connection.execute(f"CREATE TABLE description AS {described}")
            facts = fetched(connection, _sorted_facts(files))
            for concept, group in groupby(facts, key=itemgetter(0)):
                texts: tuple[dict[str, None], ...] = ({}, {}, {}, {}, {}, {})
                for _, kind, text in group:
                    texts[kind][text] = None
                if texts[NAME]:
                    name, *aliases = texts[NAME]
                    entity = Entity(
                        concept_id=concept,
                        canonical_name=name,
                        aliases=tuple(aliases),
                        types=tuple(texts[TYPE]),
                        definition=next(iter(texts[DEFINITION_TEXT]), None),
                        parents=tuple(texts[PARENT]),
                        retired_ids=tuple(texts[RETIRED]),
                        xrefs=tuple(texts[XREF]),
                        sources=(SOURCE,),
                    )
                    yield cleaned_at(f"{folder}, concept {concept}", entity)
        except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise PelError(
                f"{folder}: a row is not whole ({' '.join(lines[:4])[:300]})", "unpack it again"
            ) from error


def _english(files: list[Path]) -> list[Path]:
    """The files in English; all of them if none is."""
    return [file for file in files if "Snapshot-en" in file.name] or files


def _rows(files: list[Path], kind: str, select: str, where: str = "TRUE") -> str:
    """SQL for the active rows of files."""
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in COLUMNS[kind].split())
    paths = ", ".join(map(sql_path, files))
    return (
        f"SELECT {select} FROM read_csv([{paths}], columns = {{{columns}}}, delim = '\t', "
        "quote = '', escape = '', header = true, auto_detect = false) "
        f"WHERE active = '1' AND {where}"
    )


def _sorted_facts(files: dict[str, list[Path]]) -> str:
    """SQL for (concept, kind, text) of active concepts, sorted; of a kind the best comes first."""
    types = (
        f"SELECT conceptId, {TYPE}, regexp_extract(term, '{_TAG}', 1), id FROM description "
        f"WHERE {_IS_FULL} AND regexp_matches(term, '{_TAG}')"
    )
    queries = [_names(files[LANGUAGE]), types]
    if found := files[TEXT_DEFINITION]:
        columns = f"conceptId, {DEFINITION_TEXT}, term, id"
        queries.append(_rows(_english(found), TEXT_DEFINITION, columns))
    if found := files[RELATIONSHIP]:
        columns = f"sourceId, {PARENT}, destinationId, destinationId"
        queries.append(_rows(found, RELATIONSHIP, columns, f"typeId = '{_IS_A}'"))
    if found := files[ASSOCIATION]:
        replaced = _rows(
            found,
            ASSOCIATION,
            "DISTINCT referencedComponentId AS old, targetComponentId AS new",
            f"refsetId IN {_REPLACED_BY} AND referencedComponentId NOT IN (SELECT id FROM concept)",
        )
        queries.append(
            f"SELECT min(new), {RETIRED}, old, old FROM ({replaced}) GROUP BY old "
            "HAVING count(*) = 1"
        )
    if found := files[EXTENDED_MAP]:
        vocabulary = " ".join(f"WHEN '{refset}' THEN '{name}'" for refset, name in _MAPS.items())
        columns = (
            f"referencedComponentId, {XREF}, CASE refsetId {vocabulary} END || ':' || mapTarget, "
            "refsetId || lpad(mapGroup, 3, '0') || lpad(mapPriority, 3, '0')"
        )
        coded = f"coalesce(mapTarget, '') <> '' AND refsetId IN {tuple(_MAPS)}"
        queries.append(_rows(found, EXTENDED_MAP, columns, coded))
    facts = " UNION ALL ".join(f"({query})" for query in queries)
    return (
        f"SELECT concept, kind, text FROM ({facts}) AS fact(concept, kind, text, place) "
        "WHERE concept IN (SELECT id FROM concept) ORDER BY concept, kind, place, text"
    )


def _names(language: list[Path]) -> str:
    """Preferred terms, those of the US first; then fully specified names; then other terms."""
    preferred = "SELECT NULL AS description, NULL AS place"
    if language:
        place = f"min(if(refsetId = '{_ENGLISH_OF_THE_US}', '0', '1'))"
        rows = _rows(language, LANGUAGE, "*", f"acceptabilityId = '{_PREFERRED}'")
        preferred = f"SELECT referencedComponentId AS description, {place} AS place FROM ({rows}) GROUP BY 1"
    return (
        f"SELECT conceptId, {NAME}, if({_IS_FULL}, regexp_replace(term, '{_TAG}', ''), term), "
        f"if({_IS_FULL}, '2', coalesce(place, '3')) || id FROM description "
        f"LEFT JOIN ({preferred}) AS preferred ON preferred.description = id"
    )


SNOMED = SourceFormat("snomed", read_snomed, is_folder=_snapshot_folder, folder=f"{CONCEPT}_*.txt")
