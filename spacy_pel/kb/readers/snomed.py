"""SNOMED CT in Release Format 2 (RF2): the snapshot of an edition, or of a release and its extensions.

Only Concept and Description files are required.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import PelError
from ..records.entity import Entity
from .entity_source import ReadOptions, Source, SourceFormat
from .release_files import DEFINITION, NAME, PARENT, RETIRED, TYPE, opened_release

if TYPE_CHECKING:
    import duckdb

logger = logging.getLogger(__name__)

SOURCE = "SNOMEDCT"
_ROW = "id effectiveTime active moduleId"
_MEMBER = f"{_ROW} refsetId referencedComponentId"
_DESCRIPTION = f"{_ROW} conceptId languageCode typeId term caseSignificanceId"
_MAP = f"{_MEMBER} mapGroup mapPriority mapRule mapAdvice mapTarget correlationId"
# The columns of each kind of file. A kind is the part of its name between the type (sct2, der2) and
# "Snapshot".
COLUMNS = {
    "Concept": f"{_ROW} definitionStatusId",
    "Description": _DESCRIPTION,
    "TextDefinition": _DESCRIPTION,
    "Relationship": f"{_ROW} sourceId destinationId relationshipGroup typeId "
    "characteristicTypeId modifierId",
    "cRefset_Language": f"{_MEMBER} acceptabilityId",
    "cRefset_Association": f"{_MEMBER} targetComponentId",
    "iisssccRefset_ExtendedMap": f"{_MAP} mapCategoryId",
    "iisssciRefset_ExtendedMap": f"{_MAP} mapBlock",  # of the UK
}
(
    CONCEPT, DESCRIPTION, TEXT_DEFINITION, RELATIONSHIP, LANGUAGE, ASSOCIATION, EXTENDED_MAP, UK_MAP,
) = COLUMNS  # fmt: skip
# The name of a file has five elements: FileType, ContentType, ContentSubType, CountryNamespace and
# VersionDate, as in "sct2_Description_UKCLSnapshot-en_GB1000000_20240410.txt". A provisional file begins
# with an x. A summary of the content precedes "Snapshot": the kind of reference set, and the module.
_FILE = re.compile(r"x?(?:sct2|der2)_([A-Za-z]+)_(\w*)Snapshot([A-Za-z-]*_\w+)_(\d{8})\w*\.txt")
_IS_A = "116680003"
_IS_FULL = "typeId = '900000000000003001'"  # "Multiple sclerosis (disorder)"
_PREFERRED = "900000000000548007"
_ENGLISH_OF_THE_US = "900000000000509007"
_REPLACED_BY = "('900000000000526001', '900000000000527005')"  # REPLACED BY, SAME AS
_MAPS = {"447562003": "ICD10", "6011000124106": "ICD10CM"}  # by reference set
_UK_ICD10 = "999002271000000101"
_TAG = r"\s*\(([^()]*)\)\s*$"


def read_snomed(path: Path, options: ReadOptions) -> Source:
    """Read the active concepts of all snapshots below a folder, sorted by id as text.

    The folder may hold extensions with the release that they extend. Of the versions of a file, the latest is
    read. Of the rows of a component in several files, the one with the latest ``effectiveTime`` counts.

    The name is the preferred term, if possible in US English. Without one, it is the fully specified name
    without its tag. The tag is the type ("disorder"). Aliases are all other active English descriptions, or
    those of all languages if a concept has none in English. The id of an inactive concept becomes a retired
    id of the active concept that replaces it or is the same, if there is exactly one. Cross-references are
    the targets of the maps to ICD-10 and ICD-10-CM: several, if they depend on the patient.
    """
    files, dates = _snapshot_files(path)
    if not files[CONCEPT]:
        remedy = "give an unpacked release of SNOMED CT"
        raise PelError(f"{path}: holds no sct2_Concept_*Snapshot_*.txt", remedy)
    if not files[DESCRIPTION]:
        problem = f"{path}: holds no sct2_Description_*Snapshot-*.txt"
        raise PelError(problem, "unpack the whole release")
    return Source(_entities(path, files), version=max(dates))


def _snapshot_files(folder: Path) -> tuple[dict[str, list[Path]], set[str]]:
    """Return the newest files of each kind below a folder, and the dates of its Concept files."""
    newest: dict[tuple[str, ...], tuple[str, Path]] = {}
    for path in sorted(folder.rglob("*Snapshot*.txt")):
        if match := _FILE.fullmatch(path.name):
            content, summary, scope, date = match.groups()
            for kind in COLUMNS:
                pattern, _, refset = kind.partition("_")
                if content == pattern and refset in summary:
                    key = (kind, summary, scope)
                    newest[key] = max(newest.get(key, ("", path)), (date, path))
    files: dict[str, list[Path]] = {kind: [] for kind in COLUMNS}
    for (kind, *_), (_, path) in newest.items():
        files[kind].append(path)
    return files, {date for (kind, *_), (date, _) in newest.items() if kind == CONCEPT}


def _entities(folder: Path, files: dict[str, list[Path]]) -> Iterator[Entity]:
    with opened_release(folder, COLUMNS, files, "\t") as release:
        connection = release.connection
        for kind, paths in files.items():
            last = "QUALIFY row_number() OVER (PARTITION BY id ORDER BY effectiveTime DESC) = 1"
            rows = f"SELECT * FROM {kind} {last if len(paths) > 1 else ''}"
            connection.execute(f"CREATE VIEW Active{kind} AS FROM ({rows}) WHERE active = '1'")
        connection.execute(f"CREATE TABLE concept_id AS SELECT id FROM Active{CONCEPT}")
        connection.execute(
            "CREATE TABLE description_of AS SELECT id AS number, conceptId AS id, term, "
            f"{_IS_FULL} AS is_full, languageCode AS language FROM Active{DESCRIPTION}"
        )
        _leave_out_other_languages(folder, connection)
        _warn_of_a_missing_base(folder, connection)
        codes = " ".join(f"WHEN '{refset}' THEN '{name}'" for refset, name in _MAPS.items())
        map_row = "refsetId || lpad(mapGroup, 3, '0') || lpad(mapPriority, 3, '0') AS number"
        queries = (
            # Preferred terms in US English, other preferred terms, fully specified names, other terms.
            f"SELECT id, {NAME} AS kind, '{SOURCE}' AS vocabulary, NULL AS xref, number, "
            f"if(is_full, regexp_replace(term, '{_TAG}', ''), term) AS text, "
            "if(is_full, 2, coalesce(place, 3)) AS place FROM description_of LEFT JOIN "
            "(SELECT referencedComponentId AS number, "
            f"min(if(refsetId = '{_ENGLISH_OF_THE_US}', 0, 1)) AS place FROM Active{LANGUAGE} "
            f"WHERE acceptabilityId = '{_PREFERRED}' GROUP BY 1) AS preferred USING (number)",
            f"SELECT id, {TYPE} AS kind, regexp_extract(term, '{_TAG}', 1) AS text, number "
            f"FROM description_of WHERE is_full AND regexp_matches(term, '{_TAG}')",
            f"SELECT conceptId AS id, {DEFINITION} AS kind, term AS text, id AS number, "
            f"if(languageCode = 'en', 0, 1) AS place FROM Active{TEXT_DEFINITION}",
            f"SELECT sourceId AS id, {PARENT} AS kind, destinationId AS text "
            f"FROM Active{RELATIONSHIP} WHERE typeId = '{_IS_A}'",
            f"SELECT min(targetComponentId) AS id, {RETIRED} AS kind, "
            f"referencedComponentId AS text FROM Active{ASSOCIATION} WHERE refsetId IN {_REPLACED_BY} "
            "AND referencedComponentId NOT IN (SELECT id FROM concept_id) "
            "GROUP BY 2, 3 HAVING count(DISTINCT targetComponentId) = 1",
            f"SELECT referencedComponentId AS id, {TYPE} AS kind, "
            f"CASE refsetId {codes} END || ':' || mapTarget AS xref, {map_row} "
            f"FROM Active{EXTENDED_MAP} WHERE coalesce(mapTarget, '') <> '' "
            f"AND refsetId IN {tuple(_MAPS)}",
            # The codes of the NHS: "J459" is J45.9; "G35X" is G35; "I330D" and "I398A" are a dagger
            # and an asterisk code; "#NC" is no code.
            f"SELECT referencedComponentId AS id, {TYPE} AS kind, 'ICD10:' || "
            r"regexp_replace(regexp_replace(mapTarget, '(X?[AD]|X)$', ''), '^(...)([^.])', '\1.\2') AS xref, "
            f"{map_row} "
            f"FROM Active{UK_MAP} WHERE refsetId = '{_UK_ICD10}' AND mapTarget SIMILAR TO '[A-Z].*'",
        )
        yield from release.entities(queries, "id IN (SELECT id FROM concept_id)")


def _leave_out_other_languages(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """Delete the other descriptions of concepts that have English ones."""
    left_out = connection.execute(
        "DELETE FROM description_of WHERE language NOT LIKE 'en%' AND id IN "
        "(SELECT id FROM description_of WHERE language LIKE 'en%') RETURNING language"
    ).fetchall()
    if left_out:
        languages = ", ".join(sorted({language for (language,) in left_out}))
        message = "%s: left out %d descriptions that are not English (%s)"
        logger.warning(message, folder, len(left_out), languages)


def _warn_of_a_missing_base(folder: Path, connection: duckdb.DuckDBPyConnection) -> None:
    """Warn of concepts that have descriptions only: an extension without the release that it extends."""
    query = (
        f"SELECT count(DISTINCT id) FROM description_of WHERE id NOT IN (SELECT id FROM {CONCEPT})"
    )
    if n := connection.execute(query).fetchall()[0][0]:
        message = "%s: left out %d concepts that have descriptions, but are in no Concept file: %s"
        logger.warning(message, folder, n, "put the release that this one extends into the folder")


SNOMED = SourceFormat(
    "snomed",
    read_snomed,
    is_folder=lambda path: _snapshot_files(path)[0][CONCEPT],
    folder="sct2_Concept_*Snapshot_*.txt",
)
