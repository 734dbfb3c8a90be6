"""``pel kb info``: what a knowledge base holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..kb import KnowledgeBase
from .apps import command, kb, msg


@command(kb, "info")
def info_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
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
    msg.table(
        {name: _readable(value) for name, value in info.items()}, aligns=("l", "l"), max_col=1000
    )


def kb_info(folder: Path) -> dict[str, Any]:
    """Counts, sources, sizes in bytes and vectors of a KB, as plain data; None without vectors.

    Raises PelError if there is no KB or it is not whole.
    """
    opened = KnowledgeBase.open(folder)
    counts, vectors = opened.manifest["counts"], opened.manifest["vectors"] or {}
    return {
        "path": str(opened.path),
        "created_by": opened.manifest["created_by"],
        "sources": opened.manifest["sources"],
        **{name: counts[name] for name in ("entities", "aliases", "definitions", "alt_ids")},
        "bytes": sum(file["bytes"] for file in opened.manifest["files"].values()),
        **{name: vectors.get(name) for name in ("rows", "row_kind", "dim", "fingerprint")},
    }


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(value)
    return "-" if value is None else value
