"""Compare a KB with a newer release of its source, and merge both, entity by entity."""

from collections import defaultdict
from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ..errors import PelError
from .knowledge_base import KnowledgeBase
from .records.entity import LISTS, SCOPES, Entity, cleaned
from .records.names import normalised

_MAX_RETIRED = 0.1  # of the entities; a file is missing if there are more


class Renamed(NamedTuple):
    """An entity with another preferred name."""

    id: str
    before: str
    now: str


class Retired(NamedTuple):
    """An entity that the new release lacks, and the id of the entity with its name there, or None."""

    id: str
    name: str
    now: str | None


class Upgrade(NamedTuple):
    """The changes from a KB to a newer release.

    Attributes:
        added: The new entities.
        renamed: Entities with another preferred name.
        retired: Entities that are no longer there.
        records: The records to write: the new entities, and known ones that differ.
    """

    added: list[Entity]
    renamed: list[Renamed]
    retired: list[Retired]
    records: list[Entity]


def compare_release(old: KnowledgeBase, new: KnowledgeBase) -> Upgrade:
    """Return the changes from a KB to that of a newer release.

    An entity keeps names that no other entity has in the new release, types, codes of vocabularies that the
    release lacks, and alternative and retired ids. The rest comes from the new release. If an entity has the
    preferred name of a retired one, it gets the additions and the id of the retired one.

    Ids of a kind that the release lacks, such as those of your own entities, are not retired.

    Raises:
        PelError: More than a tenth of the entities would be retired.
    """
    kinds = {_kind(entity.concept_id) for entity in new.by_id()}
    added, renamings, retired, records = [], [], [], []
    heirs: defaultdict[str, list[Entity]] = defaultdict(list)
    n_known = 0
    for before, now in by_id(old, new):
        if before and _kind(before.concept_id) in kinds:
            n_known += 1
            if now is None:
                heir = _heir(before, new)
                retired.append(Retired(before.concept_id, before.canonical_name, heir))
                if heir:
                    heirs[heir].append(before)
    if len(retired) > _MAX_RETIRED * n_known:
        problem = f"{old.path}: {len(retired):,} of {n_known:,} entities are not in the new release"
        raise PelError(problem, "give all files of the release that the KB was built from")
    for before, now in by_id(old, new):
        if now is None:
            continue
        if before is None:
            added.append(now)
        elif before.canonical_name != now.canonical_name:
            renamings.append(Renamed(now.concept_id, before.canonical_name, now.canonical_name))
        known = [*([before] if before else ()), *heirs[now.concept_id]]
        record = _upgraded(now, known, old, new) if known else now
        if before is None or _in_order(record) != _in_order(before):
            records.append(record)
    return Upgrade(added, renamings, retired, records)


def by_id(old: KnowledgeBase, new: KnowledgeBase) -> Iterator[tuple[Entity | None, Entity | None]]:
    """Yield the records of each id in two KBs, ordered by id; None if a KB lacks the id."""
    firsts = ((entity.concept_id, 0, entity) for entity in old.by_id())
    seconds = ((entity.concept_id, 1, entity) for entity in new.by_id())
    for _, group in groupby(merge(firsts, seconds, key=itemgetter(0)), key=itemgetter(0)):
        records = {place: entity for _, place, entity in group}
        yield records.get(0), records.get(1)


def _kind(id: str) -> str:
    """Return what ids of a vocabulary share: "D" for "D001172"."""
    return id.rstrip("0123456789")


def _heir(retired: Entity, new: KnowledgeBase) -> str | None:
    """Return the id of the entity that takes the place of a retired one."""
    if retired.concept_id in new:
        return new[retired.concept_id].concept_id
    named = new.named(retired.canonical_name)
    return named[0].concept_id if len(named) == 1 else None


def _upgraded(now: Entity, known: list[Entity], old: KnowledgeBase, new: KnowledgeBase) -> Entity:
    """Return the record of a new release with the additions of the known records."""
    keys = set(map(normalised, now.names))
    names = [
        name
        for entity in known
        for name in entity.names
        if normalised(name) not in keys and not _has_moved(name, now, old, new)
    ]
    vocabularies = {code.partition(":")[0] for code in now.xrefs}
    codes = [code for e in known for code in e.xrefs if code.partition(":")[0] not in vocabularies]
    replaced = [e.concept_id for e in known if e.concept_id != now.concept_id]
    scoped = {f"{scope}_names" for scope in SCOPES}
    kept = {
        f: tuple(v for entity in known for v in getattr(entity, f) if f not in scoped or v in names)
        for f in LISTS
    }
    return cleaned(
        Entity(
            now.concept_id,
            now.canonical_name,
            (*now.aliases, *names),
            kept["types"] or now.types,
            now.definition or next((e.definition for e in known if e.definition), None),
            (*now.alt_ids, *kept["alt_ids"]),
            now.parents or kept["parents"],
            (*now.retired_ids, *kept["retired_ids"], *replaced),
            (*now.xrefs, *codes),
            now.sources or kept["sources"],
            *((*getattr(now, f"{scope}_names"), *kept[f"{scope}_names"]) for scope in SCOPES),
        )
    )


def _has_moved(name: str, now: Entity, old: KnowledgeBase, new: KnowledgeBase) -> bool:
    """Return whether another entity has a name that only this entity had."""
    others = {entity.concept_id for entity in new.named(name)} - {now.concept_id}
    return bool(others) and others.isdisjoint(entity.concept_id for entity in old.named(name))


def _in_order(entity: Entity) -> tuple[object, ...]:
    """Return the record with sorted lists: their order does not matter."""
    return tuple(sorted(v) if isinstance(v, tuple) else v for v in entity)
