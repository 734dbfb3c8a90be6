"""What every reader takes and gives, what a format says of itself, and what readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ...errors import PelError
from ...system.json_lines import json_object
from ...system.lines import numbered_lines, opened_bytes
from ...system.xml_elements import xml_elements
from ..records.entity import Entity
from ..records.semantic_types import SemanticType
from .umls_recipe import UmlsRecipe


class ReadOptions(NamedTuple):
    """Choices that only some formats have. A reader uses those of its own format.

    Attributes:
        umls: Which rows of a UMLS release are read, and how they become entities.
        columns: For tables: the field of ``Entity`` that each column holds, as {column: field}.
    """

    umls: UmlsRecipe = UmlsRecipe()
    columns: Mapping[str, str] = MappingProxyType({})


class Source(NamedTuple):
    """An open source.

    Attributes:
        entities: A stream, to be read once. Reading it raises PelError for every fault of the
            source.
        types: The semantic types that the source defines, sorted by code.
        version: The release, for example "2017AA", or None if the source does not say.
    """

    entities: Iterator[Entity]
    types: tuple[SemanticType, ...] = ()
    version: str | None = None


class SourceFormat(NamedTuple):
    """A format that knowledge bases are built from.

    Attributes:
        name: What users call it.
        read: Opens a file or folder of the format.
        suffixes: How the names of its files end, in lower case.
        is_file: Whether a file with such a name really is of the format, for suffixes that other
            formats have as well. Without it the suffix decides.
        is_folder: Whether a folder is of the format; without it no folder is.
        folder: What such a folder holds, for messages.
    """

    name: str
    read: Callable[[Path, ReadOptions], Source]
    suffixes: tuple[str, ...] = ()
    is_file: Callable[[Path], bool] | None = None
    is_folder: Callable[[Path], object] | None = None
    folder: str = ""


def or_gzipped(*suffixes: str) -> tuple[str, ...]:
    """The suffixes, each also with ".gz"."""
    return tuple(name for suffix in suffixes for name in (suffix, f"{suffix}.gz"))


def begins_with(path: Path, mark: bytes, n: int = 1 << 16) -> bool:
    """Whether the first n bytes of a file, unpacked, have a mark in them."""
    with opened_bytes(path) as file:
        return mark in file.read(n)


def file_elements(path: Path, *, longest_entity: int = 0) -> Iterator[ElementTree.Element]:
    """``xml_elements`` of a file, plain or ``.gz``, whose name errors give."""
    with opened_bytes(path) as file:
        try:
            yield from xml_elements(file, longest_entity=longest_entity)
        except PelError as error:
            raise error.at(str(path)) from error


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each filled line of a file as its place and its JSON object; PelError if it is not one."""
    for number, line in numbered_lines(path):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                yield place, json_object(line)
            except ValueError as error:
                raise PelError(f"{place}: {error}", "correct the line") from error


def distinct(read: Callable[[], Iterator[tuple[str, Entity]]]) -> Iterator[Entity]:
    """The entities of a source, each checked to have an id of its own.

    Args:
        read: Reads the source: pairs of a place, such as "file, line 3", and the entity there. It is
            called again to find the place of an earlier record.

    Raises:
        PelError: A record repeats the id of an earlier one.
    """
    seen: set[int] = set()  # hashes of ids: about 60 bytes an entity
    for place, entity in read():
        id = entity.concept_id
        if hash(id) in seen:  # of the same id, or of another one
            for earlier, known in read():
                if earlier == place:
                    break
                if known.concept_id == id:
                    problem = f"{place}: repeats the concept_id {id!r} of {earlier}"
                    raise PelError(problem, "merge the two records into one")
        seen.add(hash(id))
        yield entity
