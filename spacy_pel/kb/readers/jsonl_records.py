"""JSON lines in scispaCy's schema for knowledge bases, with the other fields of Entity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...system.json_lines import json_object
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .distinct_ids import distinct
from .entity_source import ReadOptions, Source


def read_jsonl(path: Path, options: ReadOptions) -> Source:
    """The entities of a ``.jsonl`` or ``.jsonl.gz`` file. Keys outside the schema are ignored.

    Reading them raises PelError, with file and line, for bad JSON, a missing or empty
    ``concept_id`` or ``canonical_name``, a field of the wrong type, an id of an earlier line, and
    what ``cleaned`` refuses.
    """
    return Source(distinct(partial(_entities, path)))


def _entities(path: Path) -> Iterator[tuple[str, Entity]]:
    for number, line in numbered_lines(path):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                entity = _entity(json_object(line))
            except ValueError as error:
                raise PelError(f"{place}: {error}", "correct the line") from error
            yield place, cleaned_at(place, entity)


def _entity(record: dict[str, Any]) -> Entity:
    """The entity of a JSON object; a ValueError says what is wrong with it."""
    definition = record.get("definition")
    if not isinstance(definition, (str, type(None))):
        raise ValueError("'definition' is not a string or null")
    return Entity(
        concept_id=_text(record, "concept_id"),
        canonical_name=_text(record, "canonical_name"),
        aliases=_texts(record, "aliases"),
        types=_texts(record, "types"),
        definition=definition or None,
        alt_ids=_texts(record, "alt_ids"),
        parents=_texts(record, "parents"),
        retired_ids=_texts(record, "retired_ids"),
        xrefs=_texts(record, "xrefs"),
        sources=_texts(record, "sources"),
    )


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        raise ValueError(f"{key!r} is missing")
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is not a string")
    if not value.strip():
        raise ValueError(f"{key!r} is empty")
    return value


def _texts(record: dict[str, Any], key: str) -> tuple[str, ...]:
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{key!r} is not a list of strings")
    return tuple(values)
