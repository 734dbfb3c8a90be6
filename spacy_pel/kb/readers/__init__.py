"""From source files to entities: one module a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ...errors import PelError
from ..entity import Entity
from .jsonl import read_jsonl
from .rrf import read_rrf

READERS: dict[str, Callable[[Path], Iterator[Entity]]] = {"jsonl": read_jsonl, "rrf": read_rrf}


def read_entities(source: Path, *, format: str | None = None) -> Iterator[Entity]:
    """The entities of a file or folder, as a stream.

    format: a key of READERS; None detects it from the files.
    Raises PelError if the source is missing or its format unknown, and, while streaming, for
    every fault of the source.
    """
    source = Path(source)
    if not source.exists():
        raise PelError(f"{source}: no such file or folder")
    name = format or detected_format(source)
    if name not in READERS:
        raise PelError(f"{source}: unknown format {name!r}; choose one of {', '.join(READERS)}")
    return READERS[name](source)


def detected_format(source: Path) -> str:
    """The name of the format of a file or folder; PelError if it cannot be told."""
    if source.is_dir() and any((source / f"MRCONSO.RRF{end}").is_file() for end in ("", ".gz")):
        return "rrf"
    if source.is_file() and source.name.endswith((".jsonl", ".jsonl.gz")):
        return "jsonl"
    raise PelError(
        f"{source}: cannot tell the format; give one of: jsonl (a file *.jsonl or *.jsonl.gz), "
        "rrf (a UMLS META folder holding MRCONSO.RRF or MRCONSO.RRF.gz)"
    )
