"""The list of source formats. To add one, write a module in this folder and add a line here."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from ...errors import PelError
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from ..store import KB_FILE
from . import json_records, mesh, ontologies, rrf, snomed, tables
from .entity_source import ReadOptions, Source, SourceFormat


def _read_kb_folder(path: Path, options: ReadOptions) -> Source:
    """Read the entities of a built KB. The version is the list of its sources."""

    def entities() -> Iterator[Entity]:
        with kb:
            yield from kb

    kb = KnowledgeBase.open(path)
    return Source(entities(), tuple(kb.semantic_types), ", ".join(kb.settings["sources"]) or None)


KB = SourceFormat(
    "kb", _read_kb_folder, is_folder=lambda path: (path / KB_FILE).is_file(), folder="a built KB"
)
# By name. A file or folder has the first format that fits.
SOURCE_FORMATS = {
    format.name: format
    for format in (
        json_records.JSONL,
        rrf.RRF,
        rrf.RXNORM,
        snomed.SNOMED,
        KB,
        ontologies.OBO,
        ontologies.OWL,
        mesh.MESH_XML,
        tables.MEDIC,
        tables.TABLE,
    )
}


def open_source(
    path: str | Path, *, format: str | None = None, options: ReadOptions = ReadOptions()
) -> Source:
    """Open a file or folder of entities as a stream.

    Args:
        path: The file or folder.
        format: The name of its format. None: detected from the files.
        options: Options that only some formats use.

    Raises:
        PelError: The source is missing, its format is unknown, or it has a fault. Some faults are found
            when the entities are read.
    """
    path = Path(path)
    if not path.exists():
        raise PelError(f"{path}: no such file or folder", "check the path of the source")
    name = format or detected_format(path)
    if name not in SOURCE_FORMATS:
        remedy = f"choose one of {', '.join(SOURCE_FORMATS)}"
        raise PelError(f"{path}: unknown format {name!r}", remedy)
    return SOURCE_FORMATS[name].read(path, options)


def detected_format(path: Path) -> str:
    """Return the name of the first format that fits a file or folder; PelError if none does."""
    name = path.name.lower().removesuffix(".gz")
    for format in SOURCE_FORMATS.values():
        if path.is_file() and any(fnmatchcase(name, pattern) for pattern in format.names):
            return format.name
        if path.is_dir() and format.is_folder and format.is_folder(path):
            return format.name
    choices = []
    for format in SOURCE_FORMATS.values():
        folder = [f"a folder with {format.folder}"] if format.folder else []
        choices.append(f"{format.name} ({', '.join([*format.names, *folder])})")
    remedy = f"choose one with --format: {', '.join(choices)}"
    raise PelError(f"{path}: cannot tell the format", remedy)
