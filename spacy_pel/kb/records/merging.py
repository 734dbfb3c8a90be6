"""What makes records one: ids that mean the same, and how the records of one entity are joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from .entity import Entity, cleaned

_LISTS = ("aliases", "types", "alt_ids", "parents", "retired_ids", "xrefs", "sources")
_PREFIXED = re.compile(r"(?:UMLS(?:_CUI)?:(C\d{7})|(?:MESH|MSH):([CD]\d+))", re.IGNORECASE)


def plain_id(id: str) -> str:
    """An identifier as its vocabulary writes it: "C0012634" for "UMLS:C0012634", and so for MeSH."""
    match = _PREFIXED.fullmatch(id)
    return (match[1] or match[2]) if match else id


def joined(first: Entity, *others: Entity) -> Entity:
    """One record of several that stand for the same entity.

    The id, name and definition are those of the first; if it has no definition, that of the next.
    The others' ids become alternative ids, and their names aliases. Lists are united in order.
    """
    lists = {name: dict.fromkeys(getattr(first, name)) for name in _LISTS}
    definition = first.definition
    for entity in others:
        if entity.canonical_name != first.canonical_name:
            lists["aliases"][entity.canonical_name] = None
        lists["alt_ids"][entity.concept_id] = None
        for name, united in lists.items():
            united.update(dict.fromkeys(getattr(entity, name)))
        definition = definition or entity.definition
    lists["alt_ids"].pop(first.concept_id, None)
    fields = {name: tuple(united) for name, united in lists.items()}
    return first._replace(**fields, definition=definition)


def renamed(entities: Iterable[Entity], mapping: Mapping[str, str]) -> Iterator[Entity]:
    """The entities with the concept ids to which a mapping leads at its end (``ends_of``).

    The mapping is from ids to ids of the same entities. Replaced ids become alternative ids, and
    parents get their new ids. Alternative ids and cross-references are not looked at.
    """
    ends = ends_of(mapping)
    for entity in map(cleaned, entities):
        id = ends.get(entity.concept_id, entity.concept_id)
        parents = tuple(ends.get(parent, parent) for parent in entity.parents)
        alt_ids = (entity.concept_id, *entity.alt_ids)
        # ``cleaned`` takes out what is no other id.
        yield cleaned(entity._replace(concept_id=id, parents=parents, alt_ids=alt_ids))


def ends_of(mapping: Mapping[str, str]) -> dict[str, str]:
    """The id that each id of a mapping leads to: of a -> b -> c it is c; of a cycle, its smallest id."""
    ends: dict[str, str] = {}
    for id in mapping:
        path: dict[str, int] = {}  # the ids passed, each with its place
        while id in mapping and id not in ends and id not in path:
            path[id] = len(path)
            id = mapping[id]
        if id in path:
            id = min(list(path)[path[id] :])
        ends.update(dict.fromkeys(path, ends.get(id, id)))
    return ends
