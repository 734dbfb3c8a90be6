"""Entities that join, change or leave a KB: one transaction over records and vectors a call.

What is there is not touched: a change writes one small segment of what is new, and names what is
removed from older ones. So it takes as long as the change is large, whatever the size of the KB.

Ids are concept ids throughout. An entity may join whose concept id is an alternative id of another
one: as in a KB that is built of both, a concept id goes before an alternative id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ...errors import PelError
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

    encoder: makes the vectors, and must be that of the KB's; not needed for a KB without. types:
    what the source tells of the entities' types. sources: what the entities come from, for the
    manifest. Until the very end, and after any error or interruption, the KB stays as it was, also
    for those who have it open.
    Raises PelError for a concept id that is in the KB or given twice, for bad entities, for no or
    another encoder, if another writer is at the KB, and for a full disk.
    """

    def plan(kb: KnowledgeBase, removed: RemovedRecords) -> Iterator[Entity]:
        check_encoder(kb, encoder)
        for entity in map(cleaned, entities):
            if _present(kb, entity.concept_id):
                raise PelError(
                    f"{entity.concept_id!r} is in {kb.path} already",
                    "to replace its record use kb update, to add to it kb merge",
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
    """Replaces the records, and the vectors, of entities that the KB has.

    Those whose record would stay the same are left as they are. For the rest, and the errors, see
    ``add_entities``; here a concept id that is not in the KB is refused.
    """

    def plan(kb: KnowledgeBase, removed: RemovedRecords) -> Iterator[Entity]:
        check_encoder(kb, encoder)
        for entity in map(cleaned, entities):
            number, present = _existing(kb, entity.concept_id, "to add it use kb add or kb merge")
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
    """Joins entities with the records of the same concept id, and adds those that have none.

    mapping: from concept ids of the entities to others, for example to the KB's. What is in the KB
    goes first (see ``merging.joined``). For the rest, and the errors, see ``add_entities``.
    """

    def plan(kb: KnowledgeBase, removed: RemovedRecords) -> Iterator[Entity]:
        check_encoder(kb, encoder)
        for entity in merged([entities], mapping):
            found = _present(kb, entity.concept_id)
            if found is None:
                yield entity
                continue
            number, present = found
            both = cleaned(joined(present, entity))
            if both != present:
                removed.add(number, present)
                yield both

    return apply_change(path, plan, encoder, types, sources)


def remove_entities(path: str | Path, ids: Iterable[str]) -> ChangeCounts:
    """Removes the entities with these concept ids, and their vectors.

    Raises PelError for an id that is not in the KB or is an alternative id, if nothing would be
    left, if another writer is at the KB, and for a full disk.
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


def _existing(kb: KnowledgeBase, id: str, remedy: str) -> tuple[int, Entity]:
    """The same; PelError if there is none."""
    found = _present(kb, id)
    if found:
        return found
    if id in kb:
        raise PelError(
            f"{id!r} is an alternative id of {kb[id].concept_id!r} in {kb.path}", "give that one"
        )
    raise PelError(f"{id!r} is not in {kb.path}", f"{remedy}")
