"""scispaCy's knowledge base schema, and the other fields of Entity: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import PelError
from ..entity import Entity
from .lines import numbered_lines
from .source import ReadOptions, Source


def read_jsonl(path: Path, options: ReadOptions) -> Source:
    """The entities of a ``.jsonl`` or ``.jsonl.gz`` file; keys outside the schema are ignored.

    Reading raises PelError, with file and line, for bad JSON, a missing or empty ``concept_id`` or
    ``canonical_name``, and a field of the wrong type.
    """
    return Source(_entities(path))


def _entities(path: Path) -> Iterator[Entity]:
    for number, line in numbered_lines(path):
        if line.strip():
            try:
                yield _entity(json_object(line))
            except ValueError as error:
                raise PelError(f"{path}, line {number}: {error}; correct the line") from error


def json_object(line: str) -> dict[str, Any]:
    """The JSON object of a line; ValueError says what is wrong with it."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"bad JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("bad JSON (nested too deeply)") from error
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def _entity(record: dict[str, Any]) -> Entity:
    """The entity of a JSON object; ValueError says what is wrong with it."""
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
