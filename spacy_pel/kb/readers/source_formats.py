"""The one list of source formats. To add one: a module beside this one, and a line here."""

from __future__ import annotations

from pathlib import Path

from ...errors import PelError
from . import (
    jsonl_records,
    kb_folder,
    medic,
    mesh_ascii,
    mesh_xml,
    obo,
    owl,
    rrf,
    snomed,
    table,
    zeshel_dictionary,
)
from .entity_source import ReadOptions, Source, SourceFormat

# A folder has the first of these formats that fits.
SOURCE_FORMATS = (
    jsonl_records.FORMAT,
    *rrf.FORMATS,
    snomed.FORMAT,
    kb_folder.FORMAT,
    obo.FORMAT,
    *owl.FORMATS,
    mesh_xml.FORMAT,
    mesh_ascii.FORMAT,
    medic.FORMAT,
    table.FORMAT,
    zeshel_dictionary.FORMAT,
)
_DEFAULTS = ReadOptions()


def open_source(
    path: str | Path, *, format: str | None = None, options: ReadOptions = _DEFAULTS
) -> Source:
    """Opens a file or folder that holds entities. The entities come as a stream.

    Args:
        path: The file or folder.
        format: The name of its format; None detects it from the files.
        options: Choices that only some formats have.

    Raises:
        PelError: The source is missing, or its format is unknown. Every fault of the source itself
            raises PelError as well, here or while the entities are read.
    """
    path = Path(path)
    if not path.exists():
        raise PelError(f"{path}: no such file or folder", "check the path of the source")
    name = format or detected_format(path)
    for known in SOURCE_FORMATS:
        if known.name == name:
            return known.read(path, options)
    raise PelError(f"{path}: unknown format {name!r}", f"choose one of {', '.join(format_names())}")


def detected_format(path: Path) -> str:
    """The name of the format of a file or folder. The longest suffix that fits decides.

    Raises:
        PelError: No format fits.
    """
    found = _format_of_folder(path) if path.is_dir() else _format_of_file(path)
    if found is None:
        raise PelError(f"{path}: cannot tell the format", f"choose one with --format: {_hints()}")
    return found.name


def format_names() -> list[str]:
    """The names of all formats."""
    return [format.name for format in SOURCE_FORMATS]


def _format_of_folder(path: Path) -> SourceFormat | None:
    for format in SOURCE_FORMATS:
        if format.is_folder and format.is_folder(path):
            return format
    return None


def _format_of_file(path: Path) -> SourceFormat | None:
    """The format with the longest suffix of the file's name that the file does not contradict."""
    name = path.name.lower()
    pairs = [(suffix, format) for format in SOURCE_FORMATS for suffix in format.suffixes]
    fitting = [pair for pair in pairs if name.endswith(pair[0])]
    longest = max((len(suffix) for suffix, _ in fitting), default=0)
    for suffix, format in fitting if path.is_file() else ():
        if len(suffix) == longest and (format.is_file is None or format.is_file(path)):
            return format
    return None


def _hints() -> str:
    """Each format with what its files or folders are known by."""
    hints = []
    for format in SOURCE_FORMATS:
        known = [f"*{suffix}" for suffix in format.suffixes if not suffix.endswith(".gz")]
        known += [f"a folder with {format.folder}"] if format.folder else []
        hints.append(f"{format.name} ({', '.join(known)})")
    return ", ".join(hints)
