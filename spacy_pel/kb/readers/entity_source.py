"""What every reader takes and gives, and what a format says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

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
