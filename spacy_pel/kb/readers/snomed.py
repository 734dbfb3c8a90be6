"""SNOMED CT in Release Format 2 (RF2): the snapshot of a release.

Concept and Description files are needed. Others are read if they are there.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import PelError
from ..records.entity import Entity
from .entity_source import ReadOptions, Source, SourceFormat
from .release_files import DEFINITION, NAME, PARENT, RETIRED, TYPE, opened_release

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


def read_snomed(path: Path, options: ReadOptions) -> Source:
    """The active concepts of a release, sorted by id as text.

    The name is the preferred term, in English of the US if there is a choice, or else the fully specified
    name without its tag, which is the type ("disorder"). Aliases are all other active English descriptions,
    or those of all languages if none is English. An inactive concept that exactly one active concept
    replaces, or is the same as, gives that one its id as a retired id. Cross-references are the targets of
    the maps to ICD-10 and ICD-10-CM: several, where rules about the patient decide.
    """
    folder = _snapshot_folder(path)
    if folder is None:
        raise PelError(f"{path}: holds no {CONCEPT}_*.txt", "give an unpacked release of SNOMED CT")
    files = {kind: sorted(folder.rglob(f"{kind}*.txt")) for kind in COLUMNS}
    if not files[DESCRIPTION]:
        raise PelError(f"{folder}: holds no {DESCRIPTION}-*.txt", "unpack the whole release")
    for kind in (DESCRIPTION, TEXT_DEFINITION):
        files[kind] = [file for file in files[kind] if "Snapshot-en" in file.name] or files[kind]
    date = re.search(r"_(\d{8})\.txt$", files[CONCEPT][0].name)
    return Source(_entities(folder, files), version=date[1] if date else None)


def _snapshot_folder(path: Path) -> Path | None:
    """The folder of a release's snapshot: this one, or the first one in it; None without one."""
    folders = [path, path / "Snapshot", *sorted(path.glob("*/Snapshot"))]
    pattern = f"{CONCEPT}*.txt"
    found = [f for f in folders if any(f.glob(pattern)) or any((f / "Terminology").glob(pattern))]
    return found[0] if found else None


def _entities(folder: Path, files: dict[str, list[Path]]) -> Iterator[Entity]:
    with opened_release(folder, COLUMNS, files, "\t", "active = '1'") as release:
        release.connection.execute(f"CREATE TABLE concept AS SELECT id FROM {CONCEPT}")
        release.connection.execute(
            "CREATE TABLE description AS SELECT id AS number, conceptId AS id, term, "
            f"{_IS_FULL} AS is_full FROM {DESCRIPTION}"
        )
        codes = " ".join(f"WHEN '{refset}' THEN '{name}'" for refset, name in _MAPS.items())
        queries = (
            # Preferred terms, those of the US first; then fully specified names; then other terms.
            f"SELECT id, {NAME} AS kind, '{SOURCE}' AS vocabulary, NULL AS xref, number, "
            f"if(is_full, regexp_replace(term, '{_TAG}', ''), term) AS text, "
            "if(is_full, 2, coalesce(place, 3)) AS place FROM description LEFT JOIN "
            "(SELECT referencedComponentId AS number, "
            f"min(if(refsetId = '{_ENGLISH_OF_THE_US}', 0, 1)) AS place FROM {LANGUAGE} "
            f"WHERE acceptabilityId = '{_PREFERRED}' GROUP BY 1) AS preferred USING (number)",
            f"SELECT id, {TYPE} AS kind, regexp_extract(term, '{_TAG}', 1) AS text, number "
            f"FROM description WHERE is_full AND regexp_matches(term, '{_TAG}')",
            f"SELECT conceptId AS id, {DEFINITION} AS kind, term AS text, id AS number "
            f"FROM {TEXT_DEFINITION}",
            f"SELECT sourceId AS id, {PARENT} AS kind, destinationId AS text "
            f"FROM {RELATIONSHIP} WHERE typeId = '{_IS_A}'",
            f"SELECT min(targetComponentId) AS id, {RETIRED} AS kind, "
            f"referencedComponentId AS text FROM {ASSOCIATION} WHERE refsetId IN {_REPLACED_BY} "
            "AND referencedComponentId NOT IN (SELECT id FROM concept) "
            "GROUP BY 2, 3 HAVING count(DISTINCT targetComponentId) = 1",
            f"SELECT referencedComponentId AS id, {TYPE} AS kind, "
            f"CASE refsetId {codes} END || ':' || mapTarget AS xref, "
            "refsetId || lpad(mapGroup, 3, '0') || lpad(mapPriority, 3, '0') AS number "
            f"FROM {EXTENDED_MAP} WHERE coalesce(mapTarget, '') <> '' "
            f"AND refsetId IN {tuple(_MAPS)}",
        )
        yield from release.entities(queries, "id IN (SELECT id FROM concept)")


SNOMED = SourceFormat("snomed", read_snomed, is_folder=_snapshot_folder, folder=f"{CONCEPT}_*.txt")
