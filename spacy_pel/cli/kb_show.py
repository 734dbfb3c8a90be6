"""``pel kb info`` and ``pel kb find``: what a knowledge base holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..kb import Entity, KnowledgeBase
from .apps import command, kb, msg

Folder = Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")]
_COUNTS = ("entities", "aliases", "definitions", "alt_ids", "retired_ids", "parents", "xrefs")
_SHOWN = 20  # of a list


@command(kb, "info")
def info_cli(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False
) -> None:
    """Show what a KB holds.

    \b
    Example:
      python -m spacy pel kb info kb
    """
    info = kb_info(folder)
    if as_json:
        typer.echo(json.dumps(info, indent=2, ensure_ascii=False))
        return
    width = max(map(len, info))
    for name, value in info.items():
        typer.echo(f"{name:<{width}}   {_readable(value)}")


@command(kb, "find")
def find_cli(
    folder: Folder,
    text: Annotated[str, typer.Argument(help="Words of a name, or an id")],
    limit: Annotated[int, typer.Option(min=1, help="How many entities to show")] = 10,
) -> None:
    """Find entities by the words of their names, or by id.

    Shows id, name and types of each, the one named most like the text first.

    \b
    Example:
      python -m spacy pel kb find kb "multiple sclerosis"
    """
    found = kb_find(folder, text, limit)
    for entity in found:
        types = ", ".join(entity.types)
        typer.echo(f"{entity.concept_id}\t{entity.canonical_name}\t{types}")
    if not found:
        msg.text(f"{folder} has no id {text!r} and no entity whose names hold all these words")


def kb_info(folder: Path) -> dict[str, Any]:
    """Counts, sources, types, sizes in bytes and vectors of a KB, as plain data.

    None stands for what only vectors have. codes: of an index of the kind PQ4, fewer than rows where
    names that are alike share them. recall: of the approximate index, at 1 and at 64 candidates;
    None where search is exact. Raises PelError if there is no KB or it is not whole.
    """
    with KnowledgeBase.open(folder) as opened:
        manifest, types = opened.manifest, opened.semantic_types
        stored_dim = opened.stored_dim if opened.has_vectors else None
    segments, vectors = manifest["segments"], manifest["vectors"] or {}
    index = _index(segments)
    return {
        "path": str(opened.path),
        "created_by": manifest["created_by"],
        "sources": manifest["sources"],
        **{name: manifest["counts"][name] for name in _COUNTS},
        "types": [type.name for type in types],
        "segments": len(segments),
        "removed": sum(entry["count"] for entry in segments) - len(opened),
        "bytes": sum(file["bytes"] for file in manifest["files"].values()),
        **{name: vectors.get(name) for name in ("rows", "row_kind", "dim")},
        "stored_dim": stored_dim,
        "dtype": vectors.get("dtype"),
        "index": (index["kind"] if index else "exact") if vectors else None,
        "codes": index.get("codes") if index else None,
        "recall": index["recall"] if index else None,
        "fingerprint": vectors.get("fingerprint"),
    }


def kb_find(folder: Path, text: str, limit: int) -> list[Entity]:
    """The entity with this id, or those whose names hold all words of the text, best first."""
    with KnowledgeBase.open(folder) as opened:
        return [opened[text]] if text in opened else opened.found(text, limit)


def _index(segments: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The approximate index of the largest segment that has one."""
    indexed = [s for s in segments if s["vectors"] and s["vectors"]["index"]]
    largest = max(indexed, key=lambda segment: segment["count"], default=None)
    return largest["vectors"]["index"] if largest else None


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - _SHOWN:,} more" if len(value) > _SHOWN else ""
        return (", ".join(value[:_SHOWN]) or "-") + more
    return "-" if value is None else value
