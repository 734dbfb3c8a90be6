"""``pel kb learn``: a knowledge base learns the names that annotated mentions have."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from .apps import Component, command, kb
from .kb_change import Encoder, Folder, report_change
from .progress_bar import progress_bar
from .terminal import msg


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
) -> None:
    """Learn names from annotated mentions.

    Each entity gets the names by which mentions call it. "hypertensive", for example, is then found
    as a name of hypertension. This needs no training. A name goes to the entity that most of the
    mentions mean by it. If a document defines an acronym, its long form is learnt as well.

    Give the documents that a linker is trained on, never those that it is evaluated on. Afterwards
    "kb compact" makes the search as fast as before.

    \b
    Example:
      python -m spacy pel kb learn kb train.pubtator --pipeline training/model-best
    """
    from ..kb import KnowledgeBase
    from ..pipeline.pipelines import load_pipeline
    from ..tasks.learn_names import learn_names

    start = time.perf_counter()
    KnowledgeBase.open(folder).close()  # refuses what is no KB before a pipeline is loaded
    nlp = load_pipeline(pipeline) if pipeline else None
    with progress_bar(desc="Reading", unit=" documents") as bar:
        learnt = learn_names(
            folder,
            corpora,
            nlp=nlp,
            component=component,
            spans_key=spans_key,
            progress=bar.update,
        )
    msg.good(f"{learnt.names:,} new names in {learnt.mentions:,} mentions")
    report_change(folder, learnt.changes, start)
