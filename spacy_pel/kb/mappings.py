"""scispaCy's names for look-ups in a KB, as views that hold nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .entity import Entity

if TYPE_CHECKING:
    from .knowledge_base import KnowledgeBase


class EntitiesById(Mapping[str, Entity]):
    """From ids to entities. Alternative and retired ids are known, but only concept ids listed."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __getitem__(self, id: str) -> Entity:
        return self._kb[id]

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and id in self._kb

    def __iter__(self) -> Iterator[str]:
        return (entity.concept_id for entity in self._kb)

    def __len__(self) -> int:
        return len(self._kb)


class IdsByName(Mapping[str, set[str]]):
    """From names, as they are written, to the concept ids of the entities that have them.

    Names are not stored but in the records: to list or to count them reads these all.
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    def __getitem__(self, name: str) -> set[str]:
        ids = {entity.concept_id for entity in self._kb.named(name, exact=True)}
        if not ids:
            raise KeyError(name)
        return ids

    def __iter__(self) -> Iterator[str]:
        for entity in self._kb:
            for name in entity.names:
                if self._kb.named(name, exact=True)[0].concept_id == entity.concept_id:
                    yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)
