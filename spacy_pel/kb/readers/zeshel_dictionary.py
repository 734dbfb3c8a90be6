"""ZESHEL's dictionaries: each document of a world, which is one fandom wiki, is an entity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import PelError
from ...system.json_lines import json_object
from ...system.lines import numbered_lines, opened_bytes
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .distinct_ids import distinct
from .entity_source import ReadOptions, Source

# A document is as long as an article. No encoder reads more of a definition than this.
DEFINITION_WORDS = 512
_LOOKED_AT = 1 << 20  # bytes at the start of a file, more than its first document has


class ZeshelDocument(NamedTuple):
    """A document of a world.

    Attributes:
        where: The file and line of the document.
        id: The id of the document.
        title: The title.
        text: The text. It begins with the title, and has blanks between its tokens.
    """

    where: str
    id: str
    title: str
    text: str


def read_zeshel(path: Path, options: ReadOptions) -> Source:
    """The entities of ``documents/<world>.json``: id, title, and the text as definition.

    The definition is the first 512 words of the text, without the title that it begins with. The
    source of each entity is the world, which is the name of the file.
    Reading them raises PelError, with file and line, for a line that is not such a document, an id
    of an earlier line, and what ``cleaned`` refuses.
    """
    return Source(distinct(partial(_entities, path)))


def is_zeshel(path: Path) -> bool:
    """Whether a JSON file begins like one of ZESHEL, and not like one of another format."""
    with opened_bytes(path) as file:
        return b'"document_id"' in file.read(_LOOKED_AT)


def _entities(path: Path) -> Iterator[tuple[str, Entity]]:
    world = path.name.partition(".")[0]
    for where, id, title, text in zeshel_documents(path):
        words = text.removeprefix(title).split(maxsplit=DEFINITION_WORDS)[:DEFINITION_WORDS]
        entity = Entity(id, title, definition=" ".join(words) or None, sources=(world,))
        yield where, cleaned_at(where, entity)


def zeshel_documents(path: Path) -> Iterator[ZeshelDocument]:
    """The documents of a file, one at a time; PelError, with file and line, for a bad one."""
    for where, record in zeshel_records(path):
        id, title, text = (text_of(where, record, key) for key in ("document_id", "title", "text"))
        yield ZeshelDocument(where, id, title, text)


def zeshel_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line of a file, as its place and its JSON object; PelError if it is not an object."""
    for number, line in numbered_lines(path):
        where = f"{path}, line {number}"
        if line.strip():
            try:
                yield where, json_object(line)
            except ValueError as error:
                raise PelError(f"{where}: {error}", "correct the line") from error


def text_of(where: str, record: dict[str, Any], key: str) -> str:
    """A text of a record; PelError if it is missing or blank."""
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise PelError(f"{where}: {key!r} is no text, or blank", "give a file of ZESHEL")
    return value
