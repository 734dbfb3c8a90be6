"""From source files to entities: one module a format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...errors import PelError
from .entity_source import ReadOptions, Source
from .jsonl_records import read_jsonl
from .kb_folder import is_kb_folder, read_kb_folder
from .mesh_ascii import mesh_ascii_files, read_mesh_ascii
from .mesh_xml import mesh_xml_files, read_mesh_xml
from .obo import read_obo
from .rrf import read_rrf
from .rrf_files import meta_folder
from .table import read_table
from .umls_recipe import UmlsRecipe
from .zeshel_dictionary import read_zeshel

__all__ = ["READERS", "ReadOptions", "Source", "UmlsRecipe", "detected_format", "open_source"]

READERS: dict[str, Callable[[Path, ReadOptions], Source]] = {
    "jsonl": read_jsonl,
    "rrf": read_rrf,
    "obo": read_obo,
    "mesh-xml": read_mesh_xml,
    "mesh-ascii": read_mesh_ascii,
    "table": read_table,
    "zeshel": read_zeshel,
    "kb": read_kb_folder,
}
# What tells the formats of single files: how their names end.
SUFFIXES = {
    "jsonl": (".jsonl", ".jsonl.gz"),
    "obo": (".obo", ".obo.gz"),
    "mesh-xml": (".xml", ".xml.gz"),
    "mesh-ascii": (".bin", ".bin.gz"),
    "table": (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"),
    "zeshel": (".json", ".json.gz"),
}
# And those of folders: what tells whether one is such a folder.
FOLDERS = {
    "rrf": meta_folder,
    "kb": is_kb_folder,
    "mesh-xml": mesh_xml_files,
    "mesh-ascii": mesh_ascii_files,
}
OPTIONS = ReadOptions()


def open_source(
    path: str | Path, *, format: str | None = None, options: ReadOptions = OPTIONS
) -> Source:
    """Opens a file or folder; its entities come as a stream.

    format: a key of READERS; None detects it from the files.
    Raises PelError if the source is missing or its format unknown, and, here or while its entities
    are read, for every fault of the source.
    """
    path = Path(path)
    if not path.exists():
        raise PelError(f"{path}: no such file or folder", "check the path of the source")
    name = format or detected_format(path)
    if name not in READERS:
        raise PelError(f"{path}: unknown format {name!r}", f"choose one of {', '.join(READERS)}")
    return READERS[name](path, options)


def detected_format(path: Path) -> str:
    """The name of the format of a file or folder; PelError if it cannot be told."""
    if path.is_dir():
        for name, is_such in FOLDERS.items():
            if is_such(path):
                return name
    if path.is_file():
        for name, suffixes in SUFFIXES.items():
            if path.name.lower().endswith(suffixes):
                return name
    known = "; ".join(f"{name}: *{', *'.join(ends)}" for name, ends in SUFFIXES.items())
    raise PelError(
        f"{path}: cannot tell the format",
        f"name one of those known by their files ({known}; and "
        "folders: rrf, with MRCONSO.RRF; kb, a built one; mesh-xml; mesh-ascii)",
    )
