"""Changes of a knowledge base by the entities of a source file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..kb import Entity
from ..kb.change import ChangeCounts, add_entities, merge_entities, update_entities
from ..kb.readers import open_source
from ..kb.readers.build_from_sources import source_name
from ..kb.readers.tables import mapping_version, read_mapping
from ..system.lines import numbered_lines
from .kb_rows import LinkerRows

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

CHANGES = {"add": add_entities, "update": update_entities, "merge": merge_entities}


def change_from_source(
    change: str,
    folder: Path,
    source: Path,
    *,
    linker: ProxyLinker | None = None,
    format: str | None = None,
    mapping: Path | None = None,
    progress: Callable[[], object] | None = None,
) -> ChangeCounts:
    """Add the entities of a source to a KB, or update or merge those that it has.

    The time needed depends on the size of the source, not on the size of the KB. After an error or
    an interruption, the KB is as it was.

    Args:
        change: "add" (the KB must not have the ids), "update" (the KB must have them) or "merge"
            (entities that it has are joined with the new ones, others are added).
        folder: The folder of the KB.
        source: A file or folder in a format of ``kb.readers``; ``format`` is its name, if given.
        linker: The linker whose encoder made the vectors of the KB, if it has any.
        mapping: For "merge": an SSSOM table from the source's ids to the KB's.
        progress: Called after each entity that is read.

    Raises:
        PelError: There is no KB, the source is missing or faulty, ids are refused, the KB has
            vectors and no fitting linker was given, or another process writes to the KB.
    """
    opened = open_source(source, format=format)
    encoder = None if linker is None else LinkerRows(linker)
    options: dict[str, Any] = {"sources": [source_name(source, opened.version)]}
    if mapping:
        options["mapping"] = read_mapping([mapping])
        options["sources"].append(source_name(mapping, mapping_version(mapping)))

    def entities() -> Iterator[Entity]:
        for entity in opened.entities:
            yield entity
            if progress:
                progress()

    return CHANGES[change](folder, entities(), encoder, types=opened.types, **options)


def read_ids(path: Path) -> list[str]:
    """The ids in a file that has one a line. Empty lines are passed over."""
    return [line.strip() for _, line in numbered_lines(path) if line.strip()]
