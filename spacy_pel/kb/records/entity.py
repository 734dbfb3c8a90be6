"""The record of one entity of a knowledge base: how it is cleaned, and joined with others of that entity."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...errors import PelError

# Control characters end C strings and lines; lone surrogates cannot be written as UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
RESERVED_ID = "NIL"  # spans.NIL: what a mention without an entity has in place of an id
LONGEST_ID = 1_000
LONGEST_TEXT = 1_000_000
_PREFIXED = re.compile(r"(?:UMLS(?:_CUI)?:(C\d{7})|(?:MESH|MSH):([CD]\d+))", re.IGNORECASE)


class Entity(NamedTuple):
    """An entity of a knowledge base: the fields of scispaCy's JSONL schema, and some more.

    Attributes:
        concept_id: The identifier, for example a UMLS CUI or a MeSH descriptor.
        canonical_name: The preferred name.
        aliases: Other names. They may include the canonical name.
        types: Names of semantic types, most specific first.
        definition: Free text, or None.
        alt_ids: Other identifiers of the same entity. A look-up by one of them finds this record.
        parents: Concept ids of broader entities, which need not be in the KB.
        retired_ids: Identifiers from earlier releases. A look-up by one of them finds this record.
        xrefs: Identifiers in other vocabularies ("MSH:D009103"). Several entities may share one,
            and look-ups do not use them.
        sources: The vocabularies or files that the record comes from.
    """

    concept_id: str
    canonical_name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    definition: str | None = None
    alt_ids: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    retired_ids: tuple[str, ...] = ()
    xrefs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the canonical one first, without repeats."""
        return tuple(dict.fromkeys((self.canonical_name, *self.aliases)))

    def codes(self, vocabulary: str) -> tuple[str, ...]:
        """Its codes in a vocabulary, without the name of the vocabulary: ("G35",) for "ICD10CM".

        They are found among all its identifiers but the retired ones. Case is ignored.
        """
        prefix = f"{vocabulary}:".lower()
        ids = (self.concept_id, *self.alt_ids, *self.xrefs)
        found = (id[len(prefix) :] for id in ids if id.lower().startswith(prefix))
        return tuple(dict.fromkeys(found))


LISTS = tuple(name for name, default in Entity._field_defaults.items() if default == ())


def cleaned(entity: Entity) -> Entity:
    """The entity with printable texts, and without blank or repeated names, types, ids and sources.

    PelError if an id or the name is unusable, or a text is far too long.
    """
    concept_id = _identifier(entity.concept_id, entity)
    name = _printable(entity.canonical_name, concept_id)
    if not name:
        raise PelError(f"the entity {concept_id!r} has a blank canonical_name", "give it a name")
    alt_ids = _identifiers(entity.alt_ids, entity, {concept_id})
    retired_ids = _identifiers(entity.retired_ids, entity, {concept_id, *alt_ids})
    if RESERVED_ID in (concept_id, *alt_ids, *retired_ids):
        problem = f"the entity {name!r} has the id {RESERVED_ID!r}"
        reason = "which stands for mentions without an entity"
        raise PelError(f"{problem}, {reason}", "give it another id")
    aliases, types, xrefs, sources = (
        tuple(dict.fromkeys(filter(None, (_printable(text, concept_id) for text in texts))))
        for texts in (entity.aliases, entity.types, entity.xrefs, entity.sources)
    )
    definition = _printable(entity.definition or "", concept_id) or None
    parents = _identifiers(entity.parents, entity, {concept_id})
    return Entity(
        concept_id, name, aliases, types, definition, alt_ids, parents, retired_ids, xrefs, sources
    )


def cleaned_at(place: str, entity: Entity) -> Entity:
    """``cleaned`` for an entity that was read at this place, which an error then names."""
    try:
        return cleaned(entity)
    except PelError as error:
        raise error.at(place) from error


def _identifiers(ids: Iterable[str], entity: Entity, known: set[str]) -> tuple[str, ...]:
    distinct = dict.fromkeys(_identifier(id, entity) for id in ids)
    return tuple(id for id in distinct if id not in known)


def _identifier(id: str, entity: Entity) -> str:
    stripped = id.strip()
    if not stripped or not stripped.isprintable() and _UNPRINTABLE.search(stripped):
        problem = f"the id {id!r} of the entity {entity.canonical_name!r}"
        raise PelError(f"{problem} is blank or contains control characters", "correct it")
    if len(stripped) > LONGEST_ID:
        problem = f"the id {stripped[:40]!r}... of the entity {entity.canonical_name[:40]!r}"
        remedy = f"shorten it to {LONGEST_ID:,} characters"
        raise PelError(f"{problem} has {len(stripped):,} characters", remedy)
    return stripped


def _printable(text: str, concept_id: str) -> str:
    if len(text) > LONGEST_TEXT:
        problem = f"a text of the entity {concept_id!r} has {len(text):,} characters"
        remedy = f"shorten it to {LONGEST_TEXT:,} characters"
        raise PelError(f"{problem} ({text[:40]!r}...)", remedy)
    return (text if text.isprintable() else _UNPRINTABLE.sub(" ", text)).strip()


def plain_id(id: str) -> str:
    """An identifier as its vocabulary writes it: "C0012634" for "UMLS:C0012634", and so for MeSH."""
    match = _PREFIXED.fullmatch(id)
    return (match[1] or match[2]) if match else id


def joined(first: Entity, *others: Entity) -> Entity:
    """One record of several that stand for the same entity, ``cleaned``.

    The id, name and definition are those of the first; if it has no definition, that of the next.
    The others' ids become alternative ids, and their names aliases. Lists are united in order.
    """
    lists = {name: list(getattr(first, name)) for name in LISTS}
    definition = first.definition
    for entity in others:
        if entity.canonical_name != first.canonical_name:
            lists["aliases"].append(entity.canonical_name)
        lists["alt_ids"].append(entity.concept_id)
        for name, united in lists.items():
            united += getattr(entity, name)
        definition = definition or entity.definition
    return cleaned(first._replace(**lists, definition=definition))


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
