"""``pel kb learn``: a knowledge base gets the names that annotated mentions have."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from ..kb import KnowledgeBase
from ..kb.writing.entity_changes import update_entities
from ..pipeline.pipelines import linker_of, load_pipeline
from .apps import Component, command, kb, msg
from .kb_change import Encoder, Folder, report_change


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
        str | None, typer.Option(help="Mentions may overlap; any word will do")
    ] = None,
) -> None:
    """Give entities the names that annotated mentions call them by.

    No training is needed: "hypertensive" is then found as a name of hypertension. A name goes to
    the entity that most of the mentions mean by it. Of an acronym that its document defines, the
    long form is learnt as well. Give the documents that a linker is trained on, never those that it
    is evaluated on. Afterwards "kb compact" makes the search as quick as before.

    \b
    Example:
      python -m spacy pel kb learn kb train.pubtator --pipeline training/model-best
    """
    import spacy
    from tqdm import tqdm

    from ..corpora.document_corpus import open_corpus
    from ..pipeline.gold import trainable_mentions
    from ..tasks.learn_names import renamed_entities

    start = time.perf_counter()
    encoder = None
    with KnowledgeBase.open(folder) as opened:
        nlp = load_pipeline(pipeline) if pipeline else spacy.blank("en")
        if pipeline:
            from ..tasks.embedding import LinkerRows

            encoder = LinkerRows(linker_of(nlp, component))
        read = (
            example for name in corpora for example in open_corpus(name, spans_key=spans_key)(nlp)
        )
        examples = list(tqdm(read, desc="Reading", unit=" documents"))
        mentions = trainable_mentions(examples, opened, spans_key)
        if not mentions:
            raise PelError(
                f"no mention of {', '.join(corpora)} has an entity in {folder}",
                "check that the corpus and the KB use the same identifiers",
            )
        # As they are written, and as a linker reads those that their documents define.
        resolved = trainable_mentions(examples, opened, spans_key, resolve_abbreviations=True)
        renamed = renamed_entities(mentions + resolved, opened)
        known = sum(len(opened[entity.concept_id].aliases) for entity in renamed)
    names = sum(len(entity.aliases) for entity in renamed) - known
    sources = [Path(name).name for name in corpora]
    counts = update_entities(folder, renamed, encoder, sources=sources)
    msg.good(f"{names:,} new names in {len(mentions):,} mentions")
    report_change(folder, counts, start)
