"""Classes of ontologies as entities, whatever format they are written in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import united

logger = logging.getLogger(__name__)

Facts = dict[str, list[str]]  # the values of a class by the tags of OBO


def class_entities(
    path: Path, classes: Iterable[tuple[str, str, Facts]], namespace: str | None = None
) -> Iterator[Entity]:
    """The entities of the classes that have a name and are not obsolete, sorted by id.

    Synonyms of every scope are aliases. ``is_a`` gives the parents. The type is the namespace of the
    class. The source is the prefix of the id. If exactly one class replaces an obsolete class, the
    obsolete id becomes a retired id of that class. Classes with the same id are joined. The log says
    how many have no name.

    Args:
        path: The file, for messages.
        classes: Place, id and values of each class. They are read once. Of each, the id, name and
            alternative ids stay in memory.
        namespace: The type of a class that names none.

    Raises:
        PelError: With the place, for what ``cleaned`` refuses.
    """
    return united(_entities(path, classes, namespace))


def _entities(
    path: Path, classes: Iterable[tuple[str, str, Facts]], namespace: str | None
) -> Iterator[Entity]:
    known: dict[str, Entity] = {}
    replaced_by: dict[str, str] = {}
    nameless = 0
    for place, id, facts in classes:
        if facts.get("is_obsolete"):
            if len(facts.get("replaced_by", ())) == 1:
                replaced_by[id] = facts["replaced_by"][0]
        elif facts.get("name"):
            entity = cleaned_at(place, _entity(id, facts, namespace))
            known.setdefault(id, Entity(id, entity.canonical_name, alt_ids=entity.alt_ids))
            yield entity
        else:
            nameless += 1
    for lasting, retired in _retired_ids(replaced_by).items():
        if lasting in known:  # joined with the record above
            yield known[lasting]._replace(retired_ids=tuple(retired))
    if nameless:
        logger.warning("%s: skipped %d classes without a name", path, nameless)


def _entity(id: str, facts: Facts, namespace: str | None) -> Entity:
    prefix, colon, _ = id.partition(":")
    return Entity(
        concept_id=id,
        canonical_name=facts["name"][0],
        aliases=tuple(facts.get("synonym", ())),
        types=tuple(facts.get("namespace") or filter(None, [namespace])),
        definition=next(iter(facts.get("def", ())), None),
        alt_ids=tuple(facts.get("alt_id", ())),
        parents=tuple(facts.get("is_a", ())),
        xrefs=tuple(facts.get("xref", ())),
        sources=(prefix,) if colon and "/" not in id else (),
    )


def _retired_ids(replaced_by: dict[str, str]) -> dict[str, list[str]]:
    """The obsolete ids that each class replaces, directly or through other obsolete ones."""
    ends: dict[str, str | None] = {}  # None for a cycle
    for id in replaced_by:
        path: dict[str, None] = {}
        while id in replaced_by and id not in ends and id not in path:
            path[id] = None
            id = replaced_by[id]
        end = None if id in path else ends.get(id, id)
        ends.update(dict.fromkeys(path, end))
    retired: dict[str, list[str]] = {}
    for id in sorted(ends):
        if (end := ends[id]) is not None:
            retired.setdefault(end, []).append(id)
    return retired
