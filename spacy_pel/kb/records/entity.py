"""The record of one entity: its fields, how it is cleaned, and how several records are merged."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...errors import PelError
from .names import normalised

# Control characters end C strings and lines; lone surrogates cannot be written as UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
RESERVED_ID = "NIL"  # spans.NIL: the id of a mention without an entity
MAX_ID_LENGTH = 1_000
MAX_TEXT_LENGTH = 1_000_000
# How closely a synonym means the entity, as OBO says it. Best first: a name in two scopes has the first.
SCOPES = ("exact", "narrow", "broad", "related")
_PREFIXED = re.compile(r"(?:UMLS(?:_CUI)?:(C\d{7})|(?:MESH|MSH):([CD]\d+))", re.IGNORECASE)
CURIE = "CURIE"  # in place of a vocabulary: ``Entity.curie``
# Ids without the name of their vocabulary. A CUI has seven digits, a MeSH record six or nine.
_BARE = (("UMLS", re.compile(r"C\d{7}")), ("MESH", re.compile(r"[CD]\d{6}(\d{3})?")))
_CURIE = re.compile(r"([A-Za-z][\w.-]*):(\S+)")


class Entity(NamedTuple):
    """An entity of a knowledge base: the fields of scispaCy's JSONL schema and a few more.

    Attributes:
        concept_id: The identifier, for example a UMLS CUI or a MeSH descriptor.
        canonical_name: The preferred name.
        aliases: Other names. The canonical name may be among them.
        types: Names of semantic types, most specific first.
        definition: Free text, or None.
        alt_ids: Other identifiers of the entity. A look-up by one of them returns this record.
        parents: Concept ids of broader entities. They may be missing from the KB.
        retired_ids: Identifiers from earlier releases. A look-up by one of them returns this record.
        xrefs: Identifiers in other vocabularies ("MSH:D009103"). Entities may share them. Look-ups ignore
            them.
        sources: The vocabularies or files of the record.
        exact_names, narrow_names, broad_names, related_names: The aliases whose scope the source states
            (``SCOPES``).
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
    exact_names: tuple[str, ...] = ()
    narrow_names: tuple[str, ...] = ()
    broad_names: tuple[str, ...] = ()
    related_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct names, the canonical one first."""
        return tuple(dict.fromkeys((self.canonical_name, *self.aliases)))

    @property
    def curie(self) -> str:
        """The id with the name of its vocabulary: "MESH:D001172". Ids of unknown form stay as they are."""
        vocabulary, code = vocabulary_of(self.concept_id)
        return f"{vocabulary}:{code}" if vocabulary else code

    @property
    def scopes(self) -> dict[str, str]:
        """The scope of each alias that has one: "exact", "narrow", "broad" or "related"."""
        return {
            name: scope for scope in reversed(SCOPES) for name in getattr(self, f"{scope}_names")
        }

    def without(self, name: str) -> "Entity | None":
        """Return the entity without a name in any spelling (``normalised``); None if it has no other.

        The first of the other names takes the place of a canonical name that is left out.
        """
        lost = normalised(name)

        def kept(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(other for other in names if normalised(other) != lost)

        if not (others := kept(self.names)):
            return None
        return self._replace(
            canonical_name=others[0],
            aliases=others[1:],
            exact_names=kept(self.exact_names),
            narrow_names=kept(self.narrow_names),
            broad_names=kept(self.broad_names),
            related_names=kept(self.related_names),
        )

    def codes(self, vocabulary: str) -> tuple[str, ...]:
        """Return the codes in a vocabulary, without its name: ("G35",) for "ICD10CM".

        All identifiers but the retired ones are considered. Case is ignored. "CURIE" gives ``curie``.
        """
        if vocabulary == CURIE:
            return (self.curie,)
        prefix = f"{vocabulary}:".lower()
        ids = (self.concept_id, *self.alt_ids, *self.xrefs)
        codes = (id[len(prefix) :] for id in ids if id.lower().startswith(prefix))
        return tuple(dict.fromkeys(codes))


LISTS = tuple(name for name, default in Entity._field_defaults.items() if default == ())


def cleaned(entity: Entity) -> Entity:
    """Return the entity with printable texts and without blank or repeated values.

    Raises:
        PelError: An id or the name is unusable, or a text is too long.
    """
    concept_id = _identifier(entity.concept_id, entity)
    name = _printable(entity.canonical_name, concept_id)
    if not name:
        raise PelError(f"the entity {concept_id!r} has a blank canonical_name", "give it a name")
    alt_ids = _identifiers(entity.alt_ids, entity, {concept_id})
    retired_ids = _identifiers(entity.retired_ids, entity, {concept_id, *alt_ids})
    if RESERVED_ID in (concept_id, *alt_ids, *retired_ids):
        problem = f"the entity {name!r} has the id {RESERVED_ID!r}, which marks mentions without an entity"
        raise PelError(problem, "give it another id")
    types, xrefs, sources, aliases, *scoped = (
        dict.fromkeys(filter(None, (_printable(text, concept_id) for text in texts)))
        for texts in (entity.types, entity.xrefs, entity.sources, entity.aliases, *entity[-4:])
    )
    seen = {name: None}
    for names in scoped:
        for known in names.keys() & seen.keys():
            del names[known]
        seen |= names
        aliases |= names
    definition = _printable(entity.definition or "", concept_id) or None
    parents = _identifiers(entity.parents, entity, {concept_id})
    return Entity(
        concept_id,
        name,
        tuple(aliases),
        tuple(types),
        definition,
        alt_ids,
        parents,
        retired_ids,
        tuple(xrefs),
        tuple(sources),
        *map(tuple, scoped),
    )


def cleaned_at(place: str, entity: Entity) -> Entity:
    """Return ``cleaned(entity)``. An error names the place where the entity was read."""
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
    if len(stripped) > MAX_ID_LENGTH:
        problem = f"the id {stripped[:40]!r}... of the entity {entity.canonical_name[:40]!r}"
        remedy = f"shorten it to {MAX_ID_LENGTH:,} characters"
        raise PelError(f"{problem} has {len(stripped):,} characters", remedy)
    return stripped


def _printable(text: str, concept_id: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        problem = f"a text of the entity {concept_id!r} has {len(text):,} characters"
        remedy = f"shorten it to {MAX_TEXT_LENGTH:,} characters"
        raise PelError(f"{problem} ({text[:40]!r}...)", remedy)
    return (text if text.isprintable() else _UNPRINTABLE.sub(" ", text)).strip()


def vocabulary_of(id: str) -> tuple[str | None, str]:
    """Return the vocabulary of an id and its code there; None for a bare id of unknown form."""
    if match := _CURIE.fullmatch(id):
        return match[1], match[2]
    return next((name for name, form in _BARE if form.fullmatch(id)), None), id


def plain_id(id: str) -> str:
    """Return a UMLS or MeSH identifier without its prefix: "C0012634" for "UMLS:C0012634"."""
    match = _PREFIXED.fullmatch(id)
    return (match[1] or match[2]) if match else id


def merged(first: Entity, *others: Entity) -> Entity:
    """Merge records of the same entity into one record, ``cleaned``.

    The first record gives the id and the name. The first definition is kept. The ids of the other records
    become alternative ids, and their names become aliases. Lists are concatenated.
    """
    lists: dict[str, list[str]] = {name: list(getattr(first, name)) for name in LISTS}
    definition = first.definition
    for entity in others:
        if entity.canonical_name != first.canonical_name:
            lists["aliases"].append(entity.canonical_name)
        lists["alt_ids"].append(entity.concept_id)
        for name, values in lists.items():
            values += getattr(entity, name)
        definition = definition or entity.definition
    tuples = {name: tuple(values) for name, values in lists.items()}
    return cleaned(Entity(**{**first._asdict(), **tuples, "definition": definition}))


def renamed(entities: Iterable[Entity], mapping: Mapping[str, str]) -> Iterator[Entity]:
    """Yield the entities with the concept ids that a mapping leads to (``ends_of``).

    Each id of the mapping leads to another id of the same entity. Replaced ids become alternative ids.
    Parents are mapped too; other ids are not.
    """
    ends = ends_of(mapping)
    for entity in map(cleaned, entities):
        id = ends.get(entity.concept_id, entity.concept_id)
        parents = tuple(ends.get(parent, parent) for parent in entity.parents)
        alt_ids = (entity.concept_id, *entity.alt_ids)
        # ``cleaned`` removes the concept id from the alternative ids.
        yield cleaned(entity._replace(concept_id=id, parents=parents, alt_ids=alt_ids))


def ends_of(mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the final target of each id of a mapping: c for a -> b -> c; the smallest id of a cycle."""
    ends: dict[str, str] = {}
    for id in mapping:
        path: dict[str, int] = {}  # from each id passed to its position
        while id in mapping and id not in ends and id not in path:
            path[id] = len(path)
            id = mapping[id]
        if id in path:
            id = min(list(path)[path[id] :])
        ends.update(dict.fromkeys(path, ends.get(id, id)))
    return ends
