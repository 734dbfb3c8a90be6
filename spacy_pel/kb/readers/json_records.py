"""JSON lines in scispaCy's schema for knowledge bases."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...io.lines import json_object, numbered_lines
from ..records.entity import Entity, cleaned_at
from .entity_source import Source, SourceFormat


def _entities(path: Path) -> Iterator[Entity]:
    """Yield the entities of a file in scispaCy's schema, which may have all fields of ``Entity``."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            record = json_object(line)
        except ValueError as error:
            raise PelError(f"{place}: {error}", "correct the line") from error
        fields: dict[str, Any] = {}
        for field, default in Entity._field_defaults.items():
            value = record.get(field) or default
            texts = (value or "",) if default is None else value
            if not isinstance(texts, (list, tuple)) or not all(isinstance(t, str) for t in texts):
                kind = "a string or null" if default is None else "a list of strings"
                raise PelError(f"{place}: {field!r} is not {kind}", "correct the line")
            fields[field] = value if default is None else tuple(texts)
        for key in ("concept_id", "canonical_name"):
            fields[key] = record.get(key)
            if not isinstance(fields[key], str) or not fields[key].strip():
                raise PelError(f"{place}: {key!r} is missing, blank or no text", "correct the line")
        yield cleaned_at(place, Entity(**fields))


JSONL = SourceFormat("jsonl", lambda path, options: Source(_entities(path)), ("*.jsonl",))
