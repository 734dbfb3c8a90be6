"""The differences between two KBs, for example of two releases of a vocabulary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from ..system.whole_files import whole_file
from .knowledge_base import KnowledgeBase
from .records.entity import Entity


class EntityDifference(NamedTuple):
    """An entity that is "added", "removed" or "changed", and the fields of its record that changed."""

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
                fields = zip(Entity._fields, first, second)
                changed = tuple(name for name, one, other in fields if one != other)
                yield EntityDifference(first.concept_id, "changed", changed)
            first, second = next(before, None), next(after, None)


class KBComparison(NamedTuple):
    """The changes from an old KB to a new one, counted.

    Attributes:
        kinds: The number of entities that were "added", "removed" or "changed".
        fields: The number of changed entities by the field of their records that differs.
        first_ids: The first ids of each kind.
        is_not_embedded: Whether the old KB has vectors and the new one has none.
    """

    kinds: Counter[str]
    fields: Counter[str]
    first_ids: dict[str, list[str]]
    is_not_embedded: bool


def compare_kbs(
    old: Path, new: Path, output: Path | None = None, *, n_ids: int = 5
) -> KBComparison:
    """Compare the entities of two KBs, given by their folders.

    Args:
        old: A KB.
        new: A later KB.
        output: A file to which each change is written as a line of JSON.
        n_ids: The number of ids to give of each kind.

    Raises:
        PelError: A folder holds no KB, or one that is not whole.
    """
    with KnowledgeBase.open(old) as before, KnowledgeBase.open(new) as after, ExitStack() as stack:
        file = stack.enter_context(whole_file(output)) if output else None
        is_not_embedded = before.has_vectors and not after.has_vectors
        kinds, fields, first_ids = Counter[str](), Counter[str](), dict[str, list[str]]()
        for change in difference(before, after):
            if file:
                file.write(json.dumps(change._asdict(), ensure_ascii=False) + "\n")
            kinds[change.kind] += 1
            fields.update(change.fields)
            if kinds[change.kind] <= n_ids:
                first_ids.setdefault(change.kind, []).append(change.id)
    return KBComparison(kinds, fields, first_ids, is_not_embedded)
