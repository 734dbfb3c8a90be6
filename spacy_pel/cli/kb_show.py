"""``pel kb info``, ``diff``, ``verify`` and ``export``: what a knowledge base holds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from .apps import KB, AsJson, command, kb
from .terminal import msg, progress_bar, say, say_error

_SHOWN = 20  # entries of a list
_EXAMPLES = 5  # ids of a kind of change


@command(kb, "info")
def info_cli(
    folder: KB,
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Words of a name or an id")] = None,
    as_json: AsJson = False,
    limit: Annotated[int, Option(min=1, help="Number of entities to find")] = 10,
) -> None:
    """Show what a KB holds, or find entities in it.

    With NAME it gives the id, name and types of each entity with this id, or with a name that has all
    these words; the names most like it come first.

    \b
    Examples:
      python -m spacy pel kb info kb
      python -m spacy pel kb info kb "multiple sclerosis"
    """
    from ..kb.describe import kb_find, kb_info

    found = kb_find(folder, name, limit) if name is not None else []
    info = kb_info(folder) if name is None else [entity._asdict() for entity in found]
    if as_json:
        say(json.dumps(info, indent=2, ensure_ascii=False))
    elif name is None:
        width = max(map(len, info))
        for key, value in info.items():
            say(f"{key:<{width}}   {_readable(value)}")
    elif not found:
        msg.text(f"{folder} has no id {name!r} and no entity whose names hold all these words")
    for entity in () if as_json else found:
        say(f"{entity.concept_id}\t{entity.canonical_name}\t{', '.join(entity.types)}")


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - _SHOWN:,} more" if len(value) > _SHOWN else ""
        return (", ".join(value[:_SHOWN]) or "-") + more
    return "-" if value is None else value


@command(kb, "diff")
def diff_cli(
    old: Annotated[Path, Argument(help="Folder of a KB")],
    new: Annotated[Path, Argument(help="Folder of a later one")],
    output: Annotated[Path | None, Option(help="JSONL file, with a line for each change")] = None,
) -> None:
    """Show what changed from one KB to another.

    Entities are compared by id, and their records field by field. Vectors are not compared.

    \b
    Example:
      python -m spacy pel kb diff umls-2024AB umls-2025AA --output changes.jsonl
    """
    from ..kb.describe import compare_kbs

    found = compare_kbs(old, new, output, n_ids=_EXAMPLES)
    if not found.kinds:
        msg.good(f"{old} and {new} hold the same entities")
        return
    for kind in ("added", "removed", "changed"):
        count, some = found.kinds[kind], ", ".join(found.first_ids.get(kind, ()))
        more = ", …" if count > _EXAMPLES else ""
        msg.text(f"{kind:<8} {count:>9,}  {some}{more}")
    for field, count in found.fields.most_common():
        msg.text(f"  {field:<15} {count:>9,}")
    if output:
        msg.good(f"Wrote {output}")
    if found.is_not_embedded:
        embed = f"python -m spacy pel kb embed {new} PIPELINE --reuse {old}"
        msg.text(f"To encode only what changed: {embed}")


@command(kb, "verify")
def verify_cli(folder: KB) -> None:
    """Check that a KB is undamaged.

    Reads every file, compares it with its checksum, checks each record, and that all fit together.

    \b
    Example:
      python -m spacy pel kb verify kb
    """
    from ..kb import KnowledgeBase
    from ..kb.knowledge_base import verify

    start = time.perf_counter()
    total = sum(path.stat().st_size for path in folder.glob("*.*"))
    with progress_bar(total=total, desc="Reading", unit="B", unit_scale=True) as bar:
        problems = verify(folder, progress=bar.update)
        size = bar.n
    for problem in problems:
        say_error(problem)
    if problems:
        raise Exit(1)
    with KnowledgeBase.open(folder) as opened:
        count = len(opened)
    msg.good(
        f"Verified {folder}: {count:,} entities, {size / 1e6:,.1f} MB as they were written, "
        f"in {time.perf_counter() - start:.1f} s"
    )


@command(kb, "export")
def export_cli(
    folder: KB, output: Annotated[Path, Argument(metavar="OUT", help="A new folder")]
) -> None:
    """Write a KB as Parquet tables: entities, types, rows (vectors) and mentions.

    \b
    Example:
      python -m spacy pel kb export kb tables
    """
    from ..kb import KnowledgeBase
    from ..kb.copies import export_kb

    with KnowledgeBase.open(folder) as opened:
        counts = export_kb(opened, output)
    written = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    msg.good(f"Wrote {output}: {written}")
