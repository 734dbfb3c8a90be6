"""``pel discover``: documents in, proposals of entities that the KB lacks out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..jobs.document_blocks import OnError
from .apps import Component, OtherKB, Pipeline, SpansKey, command, pel
from .terminal import msg, say


@command(
    pel,
    "discover",
    after_all="what is read is kept beside the output, and the same command goes on from there",
)
def discover_cli(
    pipeline: Pipeline,
    input: Annotated[
        list[str], typer.Argument(help="Files, and folders of files, as pel link reads them")
    ],
    output: Annotated[Path, typer.Argument(help="The JSONL file to write")],
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Format of the input [default: from the files' names]"),
    ] = None,
    linked: Annotated[
        bool,
        typer.Option(
            "--linked",
            help="The input is what pel link wrote: its mentions keep their ids and their NIL",
        ),
    ] = False,
    least_mentions: Annotated[
        int, typer.Option(min=1, help="Propose what has at least this number of mentions")
    ] = 1,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Documents linked at a time")] = 128,
    n_process: Annotated[int, typer.Option(min=1, help="Processes to use")] = 1,
    on_error: Annotated[
        OnError,
        typer.Option(help="What to do at a bad document: end the run, or go on without it"),
    ] = OnError.stop,
    component: Component = "proxy_linker",
) -> None:
    """Propose entities that the knowledge base lacks.

    Mentions that probably mean the same are joined. A group without an entity is a proposal: its
    name, other names, examples, type, the nearest entities, and how sure it is that the KB lacks it.

    Two files are written: OUTPUT, a source of "pel kb change add", and a page to look at it, with the
    suffix .html. There you accept a proposal, merge it into an entity, or reject it. Then the page
    gives you the files for "kb change add" and "kb change merge".

    The pipeline has to know when two mentions mean the same: run "pel calibrate --jointly" first.

    \b
    Examples:
      python -m spacy pel discover training/model-best notes/ proposals.jsonl
      python -m spacy pel discover training/model-best linked.jsonl proposals.jsonl --linked
      python -m spacy pel kb change add kb accepted.jsonl --pipeline training/model-best
    """
    from ..jobs.discover import discover
    from ..jobs.link_docs import Linking
    from ..pipeline.pipelines import linker_of, load_pipeline
    from .link_progress import LinkBar

    nlp = load_pipeline(pipeline)
    linker_of(nlp, component, kb=kb, spans_key=spans_key)
    linking = Linking(nlp, component, batch_size, n_process, on_error, keep_ids=linked)
    with LinkBar() as bar:
        report = discover(
            linking,
            input,
            output,
            input_format=from_,
            least_mentions=least_mentions,
            progress=bar,
        )
    mentions, documents = report.linked.mentions, report.linked.documents
    say(f"Read {mentions:,} mentions of {documents:,} documents", err=True)
    msg.good(f"{report.proposals:,} proposals: {output}; to look at them, open {report.page}")
