"""ZESHEL's dictionaries: each document of a world is an entity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import PelError
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .entity_source import ReadOptions, Source
from .jsonl_records import json_object

# A document is as long as an article; of a definition no encoder reads more than this.
DEFINITION_WORDS = 512


class ZeshelDocument(NamedTuple):
    """A document of a world; its text begins with its title, and has blanks between its tokens.

    where: the file and line that it stands in.
    """

    where: str
    id: str
    title: str
    text: str


def read_zeshel(path: Path, options: ReadOptions) -> Source:
    """The entities of ``documents/<world>.json``: id, title, and the text as definition.

    The definition is the text's first 512 words, without the title that it begins with. The world,
    which is how the file is named, is their source.
    Reading raises PelError, with file and line, for a line that is no such document, and for what
    ``cleaned`` refuses.
    """
    return Source(_entities(path))


def _entities(path: Path) -> Iterator[Entity]:
    world = path.name.partition(".")[0]
    for where, id, title, text in zeshel_documents(path):
        words = text.removeprefix(title).split(maxsplit=DEFINITION_WORDS)[:DEFINITION_WORDS]
        entity = Entity(id, title, definition=" ".join(words) or None, sources=(world,))
        yield cleaned_at(where, entity)


def zeshel_documents(path: Path) -> Iterator[ZeshelDocument]:
    """The documents of a file, one at a time; PelError, with file and line, for a bad one."""
    for where, record in zeshel_records(path):
        id, title, text = (text_of(where, record, key) for key in ("document_id", "title", "text"))
        yield ZeshelDocument(where, id, title, text)


def zeshel_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pairs (place, JSON object) of the lines of a file; PelError for one that is none."""
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        if line.strip():
            try:
                yield where, json_object(line)
            except ValueError as error:
                raise PelError(f"{where}: {error}", "correct the line") from error


def text_of(where: str, record: dict[str, Any], key: str) -> str:
    """A text of a record; PelError if it has none that is not blank."""
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise PelError(f"{where}: {key!r} is no text, or blank", "give a file of ZESHEL")
    return value
