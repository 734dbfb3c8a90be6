"""JSON lines in scispaCy's schema for knowledge bases, with the other fields of Entity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import PelError
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .entity_source import ReadOptions, Source, SourceFormat, distinct, json_lines, or_gzipped

_NEEDED = ("concept_id", "canonical_name")


def read_jsonl(path: Path, options: ReadOptions) -> Source:
    """The entities of a ``.jsonl`` or ``.jsonl.gz`` file. Keys outside the schema are ignored.

    Reading them raises PelError, with file and line, for bad JSON, a missing or empty
    ``concept_id`` or ``canonical_name``, a field of the wrong type, an id of an earlier line, and
    what ``cleaned`` refuses.
    """
    return Source(distinct(partial(_entities, path)))


def _entities(path: Path) -> Iterator[tuple[str, Entity]]:
    for place, record in json_lines(path):
        try:
            fields = {field: _value(field, record.get(field)) for field in Entity._fields}
        except ValueError as error:
            raise PelError(f"{place}: {error}", "correct the line") from error
        yield place, cleaned_at(place, Entity(**fields))


def _value(field: str, value: Any) -> Any:
    """The value of a field; a ValueError says what is wrong with it."""
    if field not in (*_NEEDED, "definition"):
        values = value or []
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            raise ValueError(f"{field!r} is not a list of strings")
        return tuple(values)
    if field in _NEEDED and value is None:
        raise ValueError(f"{field!r} is missing")
    if not isinstance(value, (str, type(None))):
        raise ValueError(f"{field!r} is not a string{'' if field in _NEEDED else ' or null'}")
    if field in _NEEDED and not value.strip():
        raise ValueError(f"{field!r} is empty")
    return value or None


FORMAT = SourceFormat("jsonl", read_jsonl, or_gzipped(".jsonl"))
