"""Adds, updates, merges and removes entities of a KB. Each call is one transaction.

Existing files are not changed. A change writes one small segment with what is new, and lists what
was removed from older segments. So its time depends on the size of the change, not of the KB. Only records and vectors that are
copied are first checked against their checksums, file by file.

All ids are concept ids. A new entity may have a concept id that is an alternative id of another
entity. A look-up by that id then finds the new entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ...errors import PelError
from ..folder.checksums import check_files
from ..knowledge_base import KnowledgeBase
from ..records.cleaning import cleaned
from ..records.entity import Entity
from ..records.merging import joined, merged
from ..records.semantic_types import SemanticType
from .apply_change import ChangeCounts, RemovedRecords, apply_change
from .row_encoder import RowEncoder, check_encoder


def add_entities(
    path: str | Path,
    entities: Iterable[Entity],
    encoder: RowEncoder | None = None,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
) -> ChangeCounts:
    """Adds entities that the KB does not have.

    Until the very end, and after any error or interruption, the KB stays as it was. Readers that
    have the KB open see the change after ``refresh``.

    Args:
        path: The KB folder.
        entities: The entities.
        encoder: Makes the vectors. It must be the encoder of the KB's vectors; a KB without vectors
            needs none.
        types: The semantic types that the source defines.
        sources: What the entities come from, for the manifest.

    Raises:
        PelError: A concept id is in the KB already or occurs twice, an entity is unusable, the
            encoder is missing or not that of the KB, another process is writing to the KB, or the
            disk is full.
    """

    def plan(kb: KnowledgeBase, removed: RemovedRecords) -> Iterator[Entity]:
        check_encoder(kb, encoder)
        for entity in map(cleaned, entities):
            if _present(kb, entity.concept_id):
                raise PelError(
                    f"{entity.concept_id!r} is in {kb.path} already",
                    "use kb update to replace its record, or kb merge to add to it",
                )
            yield entity

    return apply_change(path, plan, encoder, types, sources)


def update_entities(
    path: str | Path,
    entities: Iterable[Entity],
    encoder: RowEncoder | None = None,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
) -> ChangeCounts:
    """Replaces the records and vectors of entities that the KB has.

    Entities whose record is the same are left as they are.

    Args:
        path: The KB folder.
        entities: The entities.
        encoder: As for ``add_entities``.
        types: As for ``add_entities``.
        sources: As for ``add_entities``.

    Raises:
        PelError: A concept id is not in the KB, or as ``add_entities`` does.
    """

    def plan(kb: KnowledgeBase, removed: RemovedRecords) -> Iterator[Entity]:
        check_encoder(kb, encoder)
        for entity in map(cleaned, entities):
            number, present = _existing(kb, entity.concept_id, "use kb add or kb merge to add it")
            if present != entity:
                removed.add(number, present)
                yield entity

    return apply_change(path, plan, encoder, types, sources)


def merge_entities(
    path: str | Path,
    entities: Iterable[Entity],
    encoder: RowEncoder | None = None,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
    mapping: Mapping[str, str] | None = None,
) -> ChangeCounts:
    """Joins entities with the KB's records of the same concept id, and adds the others.

    A joined record keeps the name and definition that it has in the KB (see ``merging.joined``).

    Args:
        path: The KB folder.
        entities: The entities.
        encoder: As for ``add_entities``.
        types: As for ``add_entities``.
        sources: As for ``add_entities``.
        mapping: From concept ids of the entities to other ids, for example to those of the KB.

    Raises:
        PelError: As ``add_entities`` does, except that concept ids may be in the KB. Also if the
            file of a record to join is damaged.
    """

    def plan(kb: KnowledgeBase, removed: RemovedRecords) -> Iterator[Entity]:
        check_encoder(kb, encoder)
        sound: set[str] = set()
        for entity in merged([entities], mapping):
            found = _present(kb, entity.concept_id)
            if found is None:
                yield entity
                continue
            number, present = found
            _check_records(kb, number, sound)
            both = cleaned(joined(present, entity))
            if both != present:
                removed.add(number, present)
                yield both

    return apply_change(path, plan, encoder, types, sources)


def remove_entities(path: str | Path, ids: Iterable[str]) -> ChangeCounts:
    """Removes the entities with these concept ids, and their vectors.

    Raises:
        PelError: An id is not in the KB or is an alternative id, nothing would be left, another
            process is writing to the KB, or the disk is full.
    """

    def plan(kb: KnowledgeBase, removed: RemovedRecords) -> Iterator[Entity]:
        for id in dict.fromkeys(id.strip() for id in ids):
            removed.add(*_existing(kb, id, "check the id"))
        return iter(())

    return apply_change(path, plan, None, (), ())


def _present(kb: KnowledgeBase, id: str) -> tuple[int, Entity] | None:
    """The number and record of the entity with this concept id, or None."""
    number = kb.number(id)
    if number is None:
        return None
    [entity] = kb.entities([number])
    return (number, entity) if entity.concept_id == id else None


def _check_records(kb: KnowledgeBase, number: int, sound: set[str]) -> None:
    """Raises PelError if the records with this number's are damaged; notes in ``sound`` if not.

    A joined record copies what the KB has. So each file of records is checked once.
    """
    segment = next(segment for segment in reversed(kb.segments) if segment.first <= number)
    if segment.entry["records"] not in sound:
        check_files(kb.path, kb.manifest["files"], [segment.entry["records"]])
        sound.add(segment.entry["records"])


def _existing(kb: KnowledgeBase, id: str, remedy: str) -> tuple[int, Entity]:
    """The number and record of the entity with this concept id; PelError if there is none."""
    found = _present(kb, id)
    if found:
        return found
    if id in kb:
        raise PelError(
            f"{id!r} is an alternative id of {kb[id].concept_id!r} in {kb.path}",
            "give the concept id",
        )
    raise PelError(f"{id!r} is not in {kb.path}", remedy)
