"""A knowledge base that was built before, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..folder.manifest import MANIFEST
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from .entity_source import ReadOptions, Source


def is_kb_folder(path: Path) -> bool:
    """Whether a folder holds a knowledge base, of any schema version."""
    return (path / MANIFEST).is_file()


def read_kb_folder(path: Path, options: ReadOptions) -> Source:
    """The entities of a KB folder, without their vectors.

    The version is the list of sources that the KB was built from.

    Raises:
        PelError: There is no KB in the folder, or it is not whole.
    """
    kb = KnowledgeBase.open(path)
    built_from = ", ".join(kb.manifest["sources"])
    return Source(_entities(kb), tuple(kb.semantic_types), built_from or None)


def _entities(kb: KnowledgeBase) -> Iterator[Entity]:
    with kb:
        yield from kb
