"""What every reader takes and gives, what a format says of itself, and what readers share."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..records.entity import Entity
from ..records.semantic_types import SemanticType


class ReadOptions(NamedTuple):
    """Choices that only some formats have."""

    umls: Any = None  # a UmlsRecipe, whose module imports this one
    columns: Mapping[str, str] = MappingProxyType({})  # of tables: {column: field of Entity}


class Source(NamedTuple):
    """An open source. Reading its entities, once, raises PelError for every fault of it.

    An entity may come in several records with the same id, which are to be joined (``kb.change.united``).
    """

    entities: Iterator[Entity]
    types: tuple[SemanticType, ...] = ()  # that the source defines, sorted by code
    version: str | None = None  # for example "2017AA"; None if the source does not say


class SourceFormat(NamedTuple):
    """A format that knowledge bases are built from."""

    name: str
    read: Callable[[Path, ReadOptions], Source]  # opens a file or folder of the format
    names: tuple[str, ...] = ()  # patterns of the names of its files, in lower case, without .gz
    is_folder: Callable[[Path], object] | None = None  # without it no folder is of the format
    folder: str = ""  # what such a folder holds, for messages
