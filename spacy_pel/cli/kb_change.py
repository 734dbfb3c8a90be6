"""``pel kb change add``, ``update``, ``merge``, ``remove``; ``pel kb diff``, ``verify``, ``export``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PelError
from .apps import Component, change, command, kb
from .progress_bar import progress_bar
from .terminal import msg, say_error

if TYPE_CHECKING:
    from ..kb.change import ChangeCounts

Folder = Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")]
Entities = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help='Entities in any format that "kb build" reads. If the format needs '
        "options, build a KB from the files first, and give its folder here",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(help='Format of SOURCE, as for "kb build" [default: detected from the files]'),
]
Encoder = Annotated[
    str | None,
    typer.Option("--pipeline", help="The pipeline that made the vectors of the KB, if it has any"),
]
_EXAMPLES = 5


@command(change, "add")
def add_cli(
    folder: Folder,
    source: Entities,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: Format = None,
) -> None:
    """Add entities to a KB.

    Only the new entities are encoded and written, so the size of the KB does not matter. An id that
    the KB has already is refused.

    \b
    Example:
      python -m spacy pel kb change add kb new.jsonl --pipeline training/model-best
    """
    _change("add", folder, source, format, pipeline, component)


@command(change, "update")
def update_cli(
    folder: Folder,
    source: Entities,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: Format = None,
) -> None:
    """Replace the records of entities in a KB.

    Only records that differ are encoded and written. An id that the KB does not have is refused.

    \b
    Example:
      python -m spacy pel kb change update kb corrected.jsonl --pipeline training/model-best
    """
    _change("update", folder, source, format, pipeline, component)


@command(change, "merge")
def merge_cli(
    folder: Folder,
    source: Entities,
    mapping: Annotated[
        Path | None, typer.Option(help="SSSOM table from the source's ids to the KB's")
    ] = None,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: Format = None,
) -> None:
    """Merge entities into a KB.

    An entity whose id the KB has is joined with that one: it keeps its name and definition, and gets
    the new names, types and ids. The other entities are added.

    \b
    Example:
      python -m spacy pel kb change merge kb mondo.obo --mapping mondo.sssom.tsv --pipeline model-best
    """
    _change("merge", folder, source, format, pipeline, component, mapping)


@command(change, "remove")
def remove_cli(
    folder: Folder,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Concept ids")] = None,
    file: Annotated[Path | None, typer.Option(help="File with one id a line")] = None,
) -> None:
    """Remove entities from a KB, and their vectors.

    Numbers and rows are not used again. The space on disk becomes free when the KB is built anew.

    \b
    Examples:
      python -m spacy pel kb change remove kb C0000005 C0000039
      python -m spacy pel kb change remove kb --file ids.txt
    """
    from ..jobs.change_kb import read_ids
    from ..kb.change import remove_entities

    given = list(ids or ())
    if file:
        given += read_ids(file)
    if not given:
        raise PelError("no ids to remove", "give them, or --file with one a line")
    start = time.perf_counter()
    report_change(folder, remove_entities(folder, given), start)


@command(kb, "diff")
def diff_cli(
    old: Annotated[Path, typer.Argument(help="Folder of a KB")],
    new: Annotated[Path, typer.Argument(help="Folder of a later one")],
    output: Annotated[
        Path | None, typer.Option(help="File to which each change is written, as a line of JSON")
    ] = None,
) -> None:
    """Show what changed from one KB to another.

    Entities are compared by id, and their records field by field. Vectors are not compared.

    \b
    Example:
      python -m spacy pel kb diff umls-2024AB umls-2025AA --output changes.jsonl
    """
    from ..kb.difference import compare_kbs

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
def verify_cli(folder: Folder) -> None:
    """Check that a KB is undamaged.

    Reads every file, compares it with its checksum, checks each record, and that all fit together.

    \b
    Example:
      python -m spacy pel kb verify kb
    """
    from ..kb import KnowledgeBase
    from ..kb.verify import verify

    start = time.perf_counter()
    total = sum(path.stat().st_size for path in folder.glob("*.*"))
    with progress_bar(total=total, desc="Reading", unit="B", unit_scale=True) as bar:
        problems = verify(folder, progress=bar.update)
        size = bar.n
    if problems:
        for problem in problems:
            say_error(problem)
        raise typer.Exit(1)
    with KnowledgeBase.open(folder) as opened:
        count = len(opened)
    msg.good(
        f"Verified {folder}: {count:,} entities, {size / 1e6:,.1f} MB as they were written, "
        f"in {time.perf_counter() - start:.1f} s"
    )


@command(kb, "export")
def export_cli(
    folder: Folder,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder")],
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


def _change(
    kind: str,
    folder: Path,
    source: Path,
    format: str | None,
    pipeline: str | None,
    component: str,
    mapping: Path | None = None,
) -> None:
    """Change the KB by the entities of a source, and say what was done."""
    from ..jobs.change_kb import change_from_source
    from ..kb import KnowledgeBase
    from ..pipeline.pipelines import linker_of, load_pipeline

    KnowledgeBase.open(folder).close()  # refuses what is no KB before a pipeline is loaded
    linker = linker_of(load_pipeline(pipeline), component) if pipeline else None
    start = time.perf_counter()
    with progress_bar(desc="Reading", unit=" entities") as bar:
        counts = change_from_source(
            kind,
            folder,
            source,
            linker=linker,
            format=format,
            mapping=mapping,
            progress=bar.update,
        )
    report_change(folder, counts, start)


def report_change(folder: Path, counts: ChangeCounts, start: float) -> None:
    """Print what a change of a KB did.

    Args:
        folder: The folder of the KB.
        counts: What changed.
        start: The value of ``time.perf_counter()`` before the change.
    """
    from ..kb import KnowledgeBase

    done = ", ".join(f"{count:,} {kind}" for kind, count in counts._asdict().items() if count)
    seconds = time.perf_counter() - start
    now = len(KnowledgeBase.open(folder))
    msg.good(f"{folder}: {done or 'nothing changed'}; {now:,} entities now, in {seconds:.1f} s")
