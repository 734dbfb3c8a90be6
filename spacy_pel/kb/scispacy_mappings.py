"""scispaCy's two dictionaries of a KB, as views that store nothing."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class CuiEntity(NamedTuple):
    """An entity with the fields and the printed form of scispaCy's Entity."""

    concept_id: str
    canonical_name: str
    aliases: list[str]
    types: list[str]  # the code of each type, for example a TUI, or its name if it has no code
    definition: str | None

    def __repr__(self) -> str:
        n, shown = len(self.aliases), ", ".join(self.aliases[:10])
        total = f" (abbreviated, total: {n})" if n > 10 else f": (total: {n})"
        return (
            f"CUI: {self.concept_id}, Name: {self.canonical_name}\n"
            f"Definition: {self.definition}\n"
            f"TUI(s): {', '.join(self.types)}\n"
            f"Aliases{total}: \n\t {shown}"
        )


class EntitiesById(Mapping[str, CuiEntity]):
    """From ids to entities. Look-ups accept alternative and retired ids; iteration gives concept ids."""

    def __init__(self, kb: Any) -> None:  # a KnowledgeBase; importing it would be a cycle
        self._kb = kb
        self._codes = {type.name: type.code for type in kb.semantic_types}

    def __getitem__(self, id: str) -> CuiEntity:
        entity = self._kb[id]
        types = [self._codes.get(name) or name for name in entity.types]
        names = entity.canonical_name, list(entity.aliases)
        return CuiEntity(entity.concept_id, *names, types, entity.definition)

    def __iter__(self) -> Iterator[str]:
        return (entity.concept_id for entity in self._kb)

    def __len__(self) -> int:
        return len(self._kb)


class IdsByName(Mapping[str, set[str]]):
    """From exact names to concept ids. Iterating or counting reads all records."""

    def __init__(self, kb: Any) -> None:
        self._kb = kb

    def __getitem__(self, name: str) -> set[str]:
        ids = {entity.concept_id for entity in self._kb.named(name) if name in entity.names}
        if not ids:
            raise KeyError(name)
        return ids

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for entity in self._kb for name in entity.names))

    def __len__(self) -> int:
        return sum(1 for _ in self)
