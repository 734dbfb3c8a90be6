"""The interface of readers: their options, the source that they return, and their format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ..records.entity import Entity
from ..records.semantic_types import SemanticType
from .umls_recipe import UmlsRecipe


class ReadOptions(NamedTuple):
    """Options that only some formats use."""

    umls: UmlsRecipe | None = None
    columns: Mapping[str, str] = MappingProxyType({})  # of tables: {column: field of Entity}
    prefixes: Sequence[str] = ()  # of ids of ontologies: see ``own_entities``


class Source(NamedTuple):
    """An open source. Its entities can be read once; a fault of the source raises PelError.

    Several records with the same id are one entity and have to be joined (``kb.build.united``).
    """

    entities: Iterator[Entity]
    types: tuple[SemanticType, ...] = ()  # defined by the source, sorted by code
    version: str | None = None  # for example "2017AA"
    left_out: Mapping[str, int] = MappingProxyType({})  # classes by prefix, once all are read


class SourceFormat(NamedTuple):
    """A format of sources of knowledge bases."""

    name: str
    read: Callable[[Path, ReadOptions], Source]  # opens a file or folder of the format
    names: tuple[str, ...] = ()  # patterns of file names, in lower case, without .gz
    is_folder: Callable[[Path], object] | None = None  # None: the format has no folders
    folder: str = ""  # the content of such a folder, for messages
