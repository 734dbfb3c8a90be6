"""``pel kb info`` and ``pel kb find``: what a knowledge base holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .apps import command, kb
from .terminal import msg, say

Folder = Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")]
_SHOWN = 20  # entries of a list


@command(kb, "info")
def info_cli(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False
) -> None:
    """Show what a KB holds.

    Gives counts, sources, types, the size on disk, and facts about its vectors.

    \b
    Example:
      python -m spacy pel kb info kb
    """
    from ..tasks.describe_kb import kb_info

    info = kb_info(folder)
    if as_json:
        say(json.dumps(info, indent=2, ensure_ascii=False))
        return
    width = max(map(len, info))
    for name, value in info.items():
        say(f"{name:<{width}}   {_readable(value)}")


@command(kb, "find")
def find_cli(
    folder: Folder,
    text: Annotated[str, typer.Argument(help="Words of a name, or an id")],
    limit: Annotated[int, typer.Option(min=1, help="Number of entities to show")] = 10,
) -> None:
    """Find entities by name or id.

    Shows the id, name and types of each. A name must hold all words of TEXT; the names most like it
    come first.

    \b
    Example:
      python -m spacy pel kb find kb "multiple sclerosis"
    """
    from ..tasks.describe_kb import kb_find

    found = kb_find(folder, text, limit)
    for entity in found:
        types = ", ".join(entity.types)
        say(f"{entity.concept_id}\t{entity.canonical_name}\t{types}")
    if not found:
        msg.text(f"{folder} has no id {text!r} and no entity whose names hold all these words")


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - _SHOWN:,} more" if len(value) > _SHOWN else ""
        return (", ".join(value[:_SHOWN]) or "-") + more
    return "-" if value is None else value
