"""Cleans records: texts become printable, ids are checked, and repeats go."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...errors import PelError
from .entity import Entity

# Control characters end C strings and lines; lone surrogates cannot be written as UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
RESERVED_ID = "NIL"  # spans.NIL: what a mention without an entity has in place of an id
LONGEST_ID = 1_000
LONGEST_TEXT = 1_000_000


def cleaned(entity: Entity) -> Entity:
    """The entity with printable texts, and without blank or repeated names, types, ids and sources.

    PelError if an id or the canonical name is blank, an id contains control characters or is "NIL", or
    an id or a text is far too long.
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
    texts = ("aliases", "types", "xrefs", "sources")
    return Entity(
        concept_id=concept_id,
        canonical_name=name,
        definition=_printable(entity.definition or "", concept_id) or None,
        alt_ids=alt_ids,
        parents=_identifiers(entity.parents, entity, {concept_id}),
        retired_ids=retired_ids,
        **{field: _distinct(getattr(entity, field), concept_id) for field in texts},
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


def _distinct(texts: Iterable[str], concept_id: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (_printable(text, concept_id) for text in texts))))
