"""The differences between two KBs, for example of two releases of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .knowledge_base import KnowledgeBase
from .records.entity import Entity


class EntityDifference(NamedTuple):
    """An entity that differs between two KBs.

    Attributes:
        id: The concept id.
        kind: "added", "removed" or "changed".
        fields: The fields of the record that changed.
    """

    id: str
    kind: str
    fields: tuple[str, ...] = ()


def difference(old: KnowledgeBase, new: KnowledgeBase) -> Iterator[EntityDifference]:
    """The differences from the old KB to the new one, sorted by concept id.

    Records are compared as they are, so another order of aliases is a difference. Vectors are not
    compared. Both KBs are read once, side by side, so memory does not grow with their size.
    """
    before, after = old.by_id(), new.by_id()
    first, second = next(before, None), next(after, None)
    while first or second:
        if second is None or (first and first.concept_id < second.concept_id):
            yield EntityDifference(first.concept_id, "removed")
            first = next(before, None)
        elif first is None or second.concept_id < first.concept_id:
            yield EntityDifference(second.concept_id, "added")
            second = next(after, None)
        else:
            if first != second:
                yield EntityDifference(first.concept_id, "changed", _fields(first, second))
            first, second = next(before, None), next(after, None)


def _fields(first: Entity, second: Entity) -> tuple[str, ...]:
    return tuple(name for name, old, new in zip(Entity._fields, first, second) if old != new)
