"""A knowledge base that was built before, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from ..settings import KB_FILE, is_old_form
from .entity_source import ReadOptions, Source, SourceFormat


def is_kb_folder(path: Path) -> bool:
    """Whether a folder holds a knowledge base, also one that an earlier release wrote."""
    return (path / KB_FILE).is_file() or is_old_form(path)


def read_kb_folder(path: Path, options: ReadOptions) -> Source:
    """The entities of a KB folder, without their vectors.

    Each record is compared with its checksum when it is read.

    The version is the list of sources that the KB was built from.

    Raises:
        PelError: There is no KB in the folder, or it is not whole, or a record is damaged.
    """
    kb = KnowledgeBase.open(path)
    built_from = ", ".join(kb.settings["sources"])
    return Source(_entities(kb), tuple(kb.semantic_types), built_from or None)


def _entities(kb: KnowledgeBase) -> Iterator[Entity]:
    with kb:
        yield from kb


FORMAT = SourceFormat("kb", read_kb_folder, is_folder=is_kb_folder, folder="a built KB")
