"""``pel kb add``, ``update``, ``remove``, ``merge``, ``diff``, ``compact`` and ``verify``."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import PelError
from ..kb import KnowledgeBase, open_source
from ..kb.readers.sssom import mapping_version, read_mapping
from ..kb.verify import verify
from ..kb.writing.apply_change import ChangeCounts
from ..kb.writing.compaction import compact
from ..kb.writing.difference import EntityDifference, difference
from ..kb.writing.entity_changes import (
    add_entities,
    merge_entities,
    remove_entities,
    update_entities,
)
from ..kb.writing.row_encoder import RowEncoder
from ..pipeline.pipelines import linker_of, load_pipeline
from ..system.lines import numbered_lines
from ..system.whole_files import whole_file
from .apps import Component, command, kb, msg
from .kb_build import source_name

Folder = Annotated[Path, typer.Argument(metavar="KB", help="Folder of a knowledge base")]
Entities = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Entities in any format that kb build reads; if it takes options to read, build a KB "
        "of it, and give that",
    ),
]
Format = Annotated[str | None, typer.Option(help="As for kb build, where the files do not tell it")]
Encoder = Annotated[
    str | None,
    typer.Option("--pipeline", help="The pipeline that made the KB's vectors, if it has any"),
]
_EXAMPLES = 5


@command(kb, "add")
def add_cli(
    folder: Folder,
    source: Entities,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: Format = None,
) -> None:
    """Add entities to a KB.

    It takes as long as what is added is large, not the KB: nothing that is there is written or
    encoded again. An id that the KB has is refused.

    \b
    Example:
      python -m spacy pel kb add kb new.jsonl --pipeline training/model-best
    """
    _apply(add_entities, folder, source, format, pipeline, component)


@command(kb, "update")
def update_cli(
    folder: Folder,
    source: Entities,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: Format = None,
) -> None:
    """Replace the records of entities in a KB.

    Only those that differ are written and encoded. An id that the KB does not have is refused.

    \b
    Example:
      python -m spacy pel kb update kb corrected.jsonl --pipeline training/model-best
    """
    _apply(update_entities, folder, source, format, pipeline, component)


@command(kb, "merge")
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
    """Join entities with those of a KB, by id, and add the others.

    A joined entity keeps its name and definition, and gets the names, types and ids that are new.

    \b
    Example:
      python -m spacy pel kb merge kb mondo.obo --mapping mondo.sssom.tsv --pipeline model-best
    """
    _apply(merge_entities, folder, source, format, pipeline, component, mapping)


@command(kb, "remove")
def remove_cli(
    folder: Folder,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Concept ids")] = None,
    file: Annotated[
        Path | None, typer.Option(help="File with an id a line, besides or instead")
    ] = None,
) -> None:
    """Remove entities from a KB, and their vectors.

    Their room in the files comes free with "kb compact".

    \b
    Examples:
      python -m spacy pel kb remove kb C0000005 C0000039
      python -m spacy pel kb remove kb --file ids.txt
    """
    given = list(ids or ())
    if file:
        given += [line.strip() for _, line in numbered_lines(file) if line.strip()]
    if not given:
        raise PelError("no ids to remove", "give them, or --file with one a line")
    start = time.perf_counter()
    report_change(folder, remove_entities(folder, given), start)


@command(kb, "compact")
def compact_cli(folder: Folder) -> None:
    """Make one segment of a KB that was changed, as if it were built anew.

    For a KB that was changed a lot: it takes less room then, and is searched quicker. Vectors are
    copied, not encoded.

    \b
    Example:
      python -m spacy pel kb compact kb
    """
    from tqdm import tqdm

    start = time.perf_counter()
    total = len(KnowledgeBase.open(folder))
    made = compact(folder, progress=partial(tqdm, total=total, desc="Copying", unit=" entities"))
    size = sum(file["bytes"] for file in made.manifest["files"].values())
    msg.good(
        f"Compacted {folder}: {len(made):,} entities, {size / 1e6:,.1f} MB, in "
        f"{time.perf_counter() - start:.1f} s"
    )


@command(kb, "diff")
def diff_cli(
    old: Annotated[Path, typer.Argument(help="Folder of a KB")],
    new: Annotated[Path, typer.Argument(help="Folder of a later one")],
    output: Annotated[
        Path | None, typer.Option(help="File to write each change to, as JSON lines")
    ] = None,
) -> None:
    """Show what changed from one KB to another.

    \b
    Example:
      python -m spacy pel kb diff umls-2024AB umls-2025AA --output changes.jsonl
    """
    with KnowledgeBase.open(old) as before, KnowledgeBase.open(new) as after, ExitStack() as stack:
        changes = difference(before, after)
        if output:
            changes = _written(changes, stack.enter_context(whole_file(output)))
        kinds, fields, examples = _summary(changes)
        embedded = before.has_vectors and not after.has_vectors
    if not kinds:
        msg.good(f"{old} and {new} hold the same entities")
        return
    for kind in ("added", "removed", "changed"):
        some = ", ".join(examples.get(kind, ()))
        msg.text(f"{kind:<8} {kinds[kind]:>9,}  {some}{', …' if kinds[kind] > _EXAMPLES else ''}")
    for field, count in fields.most_common():
        msg.text(f"  {field:<15} {count:>9,}")
    if output:
        msg.good(f"Wrote {output}")
    if embedded:
        embed = f"python -m spacy pel kb embed {new} PIPELINE --reuse {old}"
        msg.text(f"To encode only what changed: {embed}")


@command(kb, "verify")
def verify_cli(folder: Folder) -> None:
    """Check every byte of a KB against its checksums, and that its files fit together.

    \b
    Example:
      python -m spacy pel kb verify kb
    """
    from tqdm import tqdm

    start = time.perf_counter()
    total = sum(path.stat().st_size for path in folder.glob("*-*.*"))
    with tqdm(total=total, desc="Reading", unit="B", unit_scale=True) as bar:
        problems = verify(folder, progress=bar.update)
        size = bar.n
    if problems:
        for problem in problems:
            typer.secho(f"Error: {problem}", fg=typer.colors.RED, err=True)
        raise typer.Exit(1)
    files = KnowledgeBase.open(folder).manifest["files"]
    msg.good(
        f"Verified {folder}: {len(files):,} files, {size / 1e6:,.1f} MB, all as they were written, "
        f"in {time.perf_counter() - start:.1f} s"
    )


def _apply(
    change: Callable[..., ChangeCounts],
    folder: Path,
    source: Path,
    format: str | None,
    pipeline: str | None,
    component: str,
    mapping: Path | None = None,
) -> None:
    """Carries out a change of the KB by the entities of a source, and says what it did."""
    from tqdm import tqdm

    KnowledgeBase.open(folder).close()  # refuses what is no KB before a pipeline is loaded
    encoder = _encoder(pipeline, component) if pipeline else None
    start = time.perf_counter()
    opened = open_source(source, format=format)
    options: dict[str, Any] = {"sources": [source_name(source, opened.version)]}
    if mapping:
        options["mapping"] = read_mapping([mapping])
        options["sources"].append(source_name(mapping, mapping_version(mapping)))
    with tqdm(opened.entities, desc="Reading", unit=" entities") as entities:
        counts = change(folder, entities, encoder, types=opened.types, **options)
    report_change(folder, counts, start)


def _encoder(pipeline: str, component: str) -> RowEncoder:
    from ..tasks.embedding import LinkerRows

    return LinkerRows(linker_of(load_pipeline(pipeline), component))


def report_change(folder: Path, counts: ChangeCounts, start: float) -> None:
    """Says what a change of the KB did. start: ``time.perf_counter()`` before it."""
    done = ", ".join(f"{count:,} {kind}" for kind, count in counts._asdict().items() if count)
    seconds = time.perf_counter() - start
    now = len(KnowledgeBase.open(folder))
    msg.good(f"{folder}: {done or 'nothing changed'}; {now:,} entities now, in {seconds:.1f} s")


def _written(changes: Iterable[EntityDifference], file: Any) -> Iterator[EntityDifference]:
    for change in changes:
        file.write(json.dumps(change._asdict(), ensure_ascii=False) + "\n")
        yield change


def _summary(
    changes: Iterable[EntityDifference],
) -> tuple[Counter[str], Counter[str], dict[str, list[str]]]:
    """How many changes of each kind and of each field there are, and the first ids of each kind."""
    kinds: Counter[str] = Counter()
    fields: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for change in changes:
        kinds[change.kind] += 1
        fields.update(change.fields)
        if kinds[change.kind] <= _EXAMPLES:
            examples.setdefault(change.kind, []).append(change.id)
    return kinds, fields, examples
