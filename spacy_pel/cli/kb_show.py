"""``pel kb info``: what a knowledge base holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .apps import command, kb
from .terminal import msg, say

_SHOWN = 20  # entries of a list


@command(kb, "info")
def info_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Words of a name, or an id, to find")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Number of entities to find")] = 10,
) -> None:
    """Show what a KB holds, or find entities in it.

    Gives counts, sources, types, the size on disk, and facts about its vectors. With NAME it gives
    the id, name and types of each entity with this id, or with a name that has all these words; the
    names most like it come first.

    \b
    Examples:
      python -m spacy pel kb info kb
      python -m spacy pel kb info kb "multiple sclerosis"
    """
    from ..kb.describe import kb_find, kb_info

    if name is not None:
        found = kb_find(folder, name, limit)
        if as_json:
            say(json.dumps([entity._asdict() for entity in found], indent=2, ensure_ascii=False))
            return
        for entity in found:
            types = ", ".join(entity.types)
            say(f"{entity.concept_id}\t{entity.canonical_name}\t{types}")
        if not found:
            msg.text(f"{folder} has no id {name!r} and no entity whose names hold all these words")
        return
    info = kb_info(folder)
    if as_json:
        say(json.dumps(info, indent=2, ensure_ascii=False))
        return
    width = max(map(len, info))
    for key, value in info.items():
        say(f"{key:<{width}}   {_readable(value)}")


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - _SHOWN:,} more" if len(value) > _SHOWN else ""
        return (", ".join(value[:_SHOWN]) or "-") + more
    return "-" if value is None else value
