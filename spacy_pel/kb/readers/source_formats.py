"""The one list of source formats. To add one: a module beside this one, and a line here."""

from __future__ import annotations

from pathlib import Path

from ...errors import PelError
from .entity_source import ReadOptions, Source, SourceFormat, or_gzipped
from .jsonl_records import read_jsonl
from .kb_folder import is_kb_folder, read_kb_folder
from .medic import read_medic
from .mesh_ascii import mesh_ascii_files, read_mesh_ascii
from .mesh_xml import is_mesh_xml, mesh_xml_files, read_mesh_xml
from .obo import read_obo
from .obo_graph import is_obo_graph, read_obo_graph
from .owl import read_owl
from .rrf import is_rxnorm, read_rrf, read_rxnorm
from .rrf_files import meta_folder
from .snomed import CONCEPT, read_snomed, snapshot_folder
from .table import read_table
from .zeshel_dictionary import is_zeshel, read_zeshel

# A folder has the first of these formats that fits.
SOURCE_FORMATS = (
    SourceFormat("jsonl", read_jsonl, or_gzipped(".jsonl")),
    SourceFormat("rrf", read_rrf, is_folder=meta_folder, folder="MRCONSO.RRF"),
    SourceFormat("rxnorm", read_rxnorm, is_folder=is_rxnorm, folder="RXNCONSO.RRF"),
    SourceFormat("snomed", read_snomed, is_folder=snapshot_folder, folder=f"{CONCEPT}_*.txt"),
    SourceFormat("kb", read_kb_folder, is_folder=is_kb_folder, folder="a built KB"),
    SourceFormat("obo", read_obo, or_gzipped(".obo")),
    SourceFormat("obo-graph", read_obo_graph, or_gzipped(".json"), is_file=is_obo_graph),
    SourceFormat("owl", read_owl, or_gzipped(".owl")),
    SourceFormat(
        "mesh-xml",
        read_mesh_xml,
        (*or_gzipped(".xml"), ".gz"),
        is_mesh_xml,
        is_folder=mesh_xml_files,
        folder="desc*.xml",
    ),
    SourceFormat(
        "mesh-ascii",
        read_mesh_ascii,
        or_gzipped(".bin"),
        is_folder=mesh_ascii_files,
        folder="d20xx.bin",
    ),
    SourceFormat("medic", read_medic, or_gzipped("ctd_diseases.tsv")),
    SourceFormat("table", read_table, (*or_gzipped(".csv", ".tsv"), ".parquet")),
    SourceFormat("zeshel", read_zeshel, or_gzipped(".json"), is_file=is_zeshel),
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
