"""``pel kb learn`` and ``forget``: a knowledge base learns from annotated mentions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .apps import Component, command, kb
from .kb_change import Encoder, Folder, report_change
from .progress_bar import progress_bar
from .terminal import msg

if TYPE_CHECKING:
    from ..kb.change import ChangeCounts


@command(kb, "learn")
def learn_cli(
    folder: Folder,
    corpora: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS...",
            help="Files whose mentions have ids (.pubtator, .jsonl, ...), or FOLDER:SPLIT of MedMentions",
        ),
    ],
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    spans_key: Annotated[
        str | None, typer.Option(help="Give any word here if mentions overlap")
    ] = None,
    mentions: Annotated[
        bool, typer.Option("--mentions", help="Learn the mentions themselves, not their names")
    ] = False,
    per_entity: Annotated[
        int,
        typer.Option(min=0, help="With --mentions: the most of an entity; 0 for all"),
    ] = 64,
    limit: Annotated[
        int, typer.Option(min=0, help="With --mentions: documents of each corpus file; 0 for all")
    ] = 0,
    fit: Annotated[
        str | None,
        typer.Option(
            metavar="CORPUS",
            help="With --mentions: other documents, to fit how much mentions count [default: fitted "
            "to what is learnt]",
        ),
    ] = None,
) -> None:
    """Learn names, or whole mentions, from annotated documents. This needs no training.

    Without --mentions each entity gets the names by which mentions call it. "hypertensive", for
    example, is then found as a name of hypertension. A name goes to the entity that most of the
    mentions mean by it. If a document defines an acronym, its long form is learnt as well.

    With --mentions the KB keeps the mentions themselves, in their texts. A new mention is then
    compared with names and with mentions. "kb forget" takes them out again.

    Give the documents that a linker is trained on, never those that it is evaluated on.

    \b
    Examples:
      python -m spacy pel kb learn kb train.pubtator --pipeline training/model-best
      python -m spacy pel kb learn kb train.pubtator --mentions --pipeline training/model-best
    """
    from ..kb import KnowledgeBase
    from ..pipeline.pipelines import load_pipeline

    start = time.perf_counter()
    KnowledgeBase.open(folder).close()  # refuses what is no KB before a pipeline is loaded
    nlp = load_pipeline(pipeline) if pipeline else None
    with progress_bar(desc="Reading", unit=" documents") as bar:
        reading = {"nlp": nlp, "component": component, "spans_key": spans_key}
        reading["progress"] = bar.update
        if mentions:
            chosen = {"per_entity": per_entity, "limit": limit, "fit": fit}
            said, changes = _learn_mentions(folder, corpora, {**reading, **chosen}), None
        else:
            said, changes = _learn_names(folder, corpora, reading)
    msg.good(said)
    if changes:
        report_change(folder, changes, start)


@command(kb, "forget")
def forget_cli(
    folder: Folder,
    source: Annotated[
        str, typer.Option(help='Name of the corpus, as "kb info" shows it under "mentions"')
    ],
) -> None:
    """Take the mentions of a source out of a KB, which "kb learn --mentions" put there.

    \b
    Example:
      python -m spacy pel kb forget kb --source train.pubtator
    """
    from ..kb.mention_changes import forget_mentions

    msg.good(f"{forget_mentions(folder, source):,} mentions of {source} taken out of {folder}")


def _learn_names(
    folder: Path, corpora: list[str], reading: dict[str, Any]
) -> tuple[str, ChangeCounts]:
    """What there is to say of the names learnt, and what changed."""
    from ..fitting.learn_names import learn_names

    learnt = learn_names(folder, corpora, **reading)
    return f"{learnt.names:,} new names in {learnt.mentions:,} mentions", learnt.changes


def _learn_mentions(folder: Path, corpora: list[str], reading: dict[str, Any]) -> str:
    """What there is to say of the mentions learnt."""
    from ..fitting.learn_mentions import learn_mentions_of

    start = time.perf_counter()
    learnt = learn_mentions_of(folder, corpora, **reading)
    if learnt.weight:
        weight = f"they count {learnt.weight.weight:.2f} above {learnt.weight.level:.2f}"
    else:
        weight = "too few to fit how much they count"
    return (
        f"{learnt.mentions:,} of {learnt.seen:,} mentions of {learnt.entities:,} entities learnt in "
        f"{time.perf_counter() - start:.1f} s; {weight}"
    )
