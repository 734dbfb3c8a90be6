"""A knowledge base that was built before, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..folder.checksums import check_files
from ..folder.manifest import MANIFEST
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from .entity_source import ReadOptions, Source, SourceFormat


def is_kb_folder(path: Path) -> bool:
    """Whether a folder holds a knowledge base, of any schema version."""
    return (path / MANIFEST).is_file()


def read_kb_folder(path: Path, options: ReadOptions) -> Source:
    """The entities of a KB folder, without their vectors.

    Its records are compared with their checksums before they are copied.

    The version is the list of sources that the KB was built from.

    Raises:
        PelError: There is no KB in the folder, or it is not whole, or its records are damaged.
    """
    kb = KnowledgeBase.open(path)
    named = [segment.entry[key] for segment in kb.segments for key in ("records", "removed")]
    check_files(kb.path, kb.manifest["files"], filter(None, named))
    built_from = ", ".join(kb.manifest["sources"])
    return Source(_entities(kb), tuple(kb.semantic_types), built_from or None)


def _entities(kb: KnowledgeBase) -> Iterator[Entity]:
    with kb:
        yield from kb


FORMAT = SourceFormat("kb", read_kb_folder, is_folder=is_kb_folder, folder="a built KB")
