"""``pel kb change add``, ``update``, ``merge``, ``remove``; ``pel kb learn`` and ``forget``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ..errors import PelError
from .apps import KB, Component, change, command, kb
from .terminal import msg, progress_bar

if TYPE_CHECKING:
    from ..kb.change import ChangeCounts

Entities = Annotated[
    Path,
    Argument(
        metavar="SOURCE",
        help='Entities in any format that "kb build" reads; or a KB, built with its options',
    ),
]
Encoder = Annotated[
    str | None, Option("--pipeline", help="The pipeline that made the vectors of the KB, if any")
]
_CHANGES = {
    "add": """Add entities to a KB.

    Only the new entities are encoded and written, so the size of the KB does not matter. An id that
    the KB has already is refused.

    \b
    Example:
      python -m spacy pel kb change add kb new.jsonl --pipeline training/model-best
    """,
    "update": """Replace the records of entities in a KB.

    Only records that differ are encoded and written. An id that the KB does not have is refused.

    \b
    Example:
      python -m spacy pel kb change update kb corrected.jsonl --pipeline training/model-best
    """,
    "merge": """Merge entities into a KB.

    An entity whose id the KB has is joined with that one: it keeps its name and definition, and gets
    the new names, types and ids. The other entities are added.

    \b
    Example:
      python -m spacy pel kb change merge kb mondo.obo --mapping mondo.sssom.tsv --pipeline model-best
    """,
}


def _add_change(kind: str, help: str) -> None:
    @command(change, kind, help=help)
    def change_cli(
        folder: KB,
        source: Entities,
        mapping: Annotated[Path | None, Option(help="merge: SSSOM table of ids")] = None,
        pipeline: Encoder = None,
        component: Component = "proxy_linker",
        format: Annotated[str | None, Option(help='Format of SOURCE, as for "kb build"')] = None,
    ) -> None:
        from ..jobs.change_kb import change_from_source
        from ..kb import KnowledgeBase
        from ..pipeline.pipelines import linker_of, load_pipeline

        if mapping and kind != "merge":
            raise PelError("--mapping is for kb change merge", "leave it out")
        KnowledgeBase.open(folder).close()  # refuses what is no KB before a pipeline is loaded
        linker = linker_of(load_pipeline(pipeline), component) if pipeline else None
        start = time.perf_counter()
        given = {"linker": linker, "format": format, "mapping": mapping}
        with progress_bar(desc="Reading", unit=" entities") as bar:
            counts = change_from_source(kind, folder, source, **given, progress=bar.update)
        _report(folder, counts, start)


for _kind, _help in _CHANGES.items():
    _add_change(_kind, _help)


@command(change, "remove")
def remove_cli(
    folder: KB,
    ids: Annotated[list[str] | None, Argument(metavar="[ID]...", help="Concept ids")] = None,
    file: Annotated[Path | None, Option(help="File with one id a line")] = None,
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

    given = [*(ids or ()), *(read_ids(file) if file else ())]
    if not given:
        raise PelError("no ids to remove", "give them, or --file with one a line")
    start = time.perf_counter()
    _report(folder, remove_entities(folder, given), start)


@command(kb, "learn")
def learn_cli(
    folder: KB,
    corpora: Annotated[
        list[str],
        Argument(
            metavar="CORPUS...",
            help="Files whose mentions have ids (.pubtator, .jsonl, ...), or FOLDER:SPLIT of MedMentions; "
            "with --acronyms any texts",
        ),
    ],
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    spans_key: Annotated[str | None, Option(help="Give any word here if mentions overlap")] = None,
    mentions: Annotated[bool, Option("--mentions", help="Learn mentions, not their names")] = False,
    acronyms: Annotated[bool, Option("--acronyms", help="Learn acronyms of plain texts")] = False,
    least: Annotated[int, Option(min=1, help="--acronyms: least texts that define one")] = 1,
    per_entity: Annotated[int, Option(min=0, help="--mentions: most of an entity; 0: all")] = 64,
    limit: Annotated[int, Option(min=0, help="--mentions: documents of a file; 0: all")] = 0,
    fit: Annotated[
        str | None,
        Option(
            metavar="CORPUS", help="--mentions: other documents, to fit how much mentions count"
        ),
    ] = None,
) -> None:
    """Learn names, or whole mentions, from annotated documents, or acronyms from plain text.

    This needs no training. Give the documents that a linker is trained on, never those that it is
    evaluated on. Each entity gets the names by which most mentions call it: "hypertensive", for
    example, is then found as a name of hypertension.

    With --mentions the KB keeps the mentions themselves, in their texts. A new mention is then
    compared with names and with mentions. "kb forget" takes them out again.

    With --acronyms the documents need no annotations. Where one of them defines "multiple sclerosis
    (MS)", and a single entity has this name, the entity gets the name "MS".

    \b
    Examples:
      python -m spacy pel kb learn kb train.pubtator --pipeline training/model-best
      python -m spacy pel kb learn kb train.pubtator --mentions --pipeline training/model-best
      python -m spacy pel kb learn kb abstracts.txt.gz --acronyms --pipeline training/model-best
    """
    from ..fitting.learn_mentions import learn_mentions_of
    from ..fitting.learn_names import learn_acronyms, learn_names
    from ..kb import KnowledgeBase
    from ..pipeline.pipelines import load_pipeline

    start = time.perf_counter()
    KnowledgeBase.open(folder).close()  # refuses what is no KB before a pipeline is loaded
    nlp = load_pipeline(pipeline) if pipeline else None
    with progress_bar(desc="Reading", unit=" documents") as bar:
        given = {"nlp": nlp, "component": component, "progress": bar.update}
        if acronyms:
            learnt = learn_acronyms(folder, corpora, **given, least=least)
            said = (
                f"{learnt.names:,} acronyms of entities in {learnt.texts:,} texts; several entities "
                f"have {learnt.ambiguous:,} of them"
            )
        elif mentions:
            given |= {"spans_key": spans_key, "per_entity": per_entity, "limit": limit, "fit": fit}
            learnt = learn_mentions_of(folder, corpora, **given)
            weight = "too few to fit how much they count"
            if learnt.weight:
                weight = f"they count {learnt.weight.weight:.2f} above {learnt.weight.level:.2f}"
            said = (
                f"{learnt.mentions:,} of {learnt.seen:,} mentions of {learnt.entities:,} entities "
                f"learnt in {time.perf_counter() - start:.1f} s; {weight}"
            )
        else:
            learnt = learn_names(folder, corpora, **given, spans_key=spans_key)
            said = f"{learnt.names:,} new names in {learnt.mentions:,} mentions"
    msg.good(said)
    if not mentions or acronyms:
        _report(folder, learnt.changes, start)


@command(kb, "forget")
def forget_cli(
    folder: KB,
    source: Annotated[str, Option(help='Name of the corpus, as "kb info" shows it')],
) -> None:
    """Take the mentions of a source out of a KB, which "kb learn --mentions" put there.

    \b
    Example:
      python -m spacy pel kb forget kb --source train.pubtator
    """
    from ..kb.mention_changes import forget_mentions

    msg.good(f"{forget_mentions(folder, source):,} mentions of {source} taken out of {folder}")


def _report(folder: Path, counts: ChangeCounts, start: float) -> None:
    """Print what a change of a KB did, and in how many seconds since ``start``."""
    from ..kb import KnowledgeBase

    done = ", ".join(f"{count:,} {kind}" for kind, count in counts._asdict().items() if count)
    seconds = time.perf_counter() - start
    now = len(KnowledgeBase.open(folder))
    msg.good(f"{folder}: {done or 'nothing changed'}; {now:,} entities now, in {seconds:.1f} s")
