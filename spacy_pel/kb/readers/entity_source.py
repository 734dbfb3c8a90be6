"""What every reader takes and gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..records.entity import Entity
from ..records.semantic_types import SemanticType
from .umls_recipe import UmlsRecipe


class ReadOptions(NamedTuple):
    """Choices that only some formats know; a reader takes those of its own.

    umls: which rows of a UMLS release are read, and how they become entities.
    columns: for tables, the column that holds a field of Entity, as {column: field}.
    """

    umls: UmlsRecipe = UmlsRecipe()
    columns: Mapping[str, str] = MappingProxyType({})


class Source(NamedTuple):
    """An opened source.

    entities: a stream to be read once; reading raises PelError for every fault of the source.
    types: the semantic types that the source defines, in order of code.
    version: its release, for example "2017AA", or None where it does not say.
    """

    entities: Iterator[Entity]
    types: tuple[SemanticType, ...] = ()
    version: str | None = None
