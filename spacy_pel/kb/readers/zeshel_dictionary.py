"""ZESHEL's dictionaries: each document of a world, which is one fandom wiki, is an entity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import PelError
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .entity_source import (
    ReadOptions,
    Source,
    SourceFormat,
    begins_with,
    distinct,
    json_lines,
    or_gzipped,
)

# A document is as long as an article. No encoder reads more of a definition than this.
DEFINITION_WORDS = 512


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


def _entities(path: Path) -> Iterator[tuple[str, Entity]]:
    world = path.name.partition(".")[0]
    for where, id, title, text in zeshel_documents(path):
        words = text.removeprefix(title).split(maxsplit=DEFINITION_WORDS)[:DEFINITION_WORDS]
        entity = Entity(id, title, definition=" ".join(words) or None, sources=(world,))
        yield where, cleaned_at(where, entity)


def zeshel_documents(path: Path) -> Iterator[ZeshelDocument]:
    """The documents of a file, one at a time; PelError, with file and line, for a bad one."""
    for where, record in json_lines(path):
        id, title, text = (text_of(where, record, key) for key in ("document_id", "title", "text"))
        yield ZeshelDocument(where, id, title, text)


def text_of(where: str, record: dict[str, Any], key: str) -> str:
    """A text of a record; PelError if it is missing or blank."""
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise PelError(f"{where}: {key!r} is no text, or blank", "give a file of ZESHEL")
    return value


FORMAT = SourceFormat(
    "zeshel",
    read_zeshel,
    or_gzipped(".json"),
    # Documents are long, and the first has the key somewhere.
    is_file=partial(begins_with, mark=b'"document_id"', n=1 << 20),
)
