"""``pel link``: documents in, mentions with their entities out."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from spacy.language import Language

from ..documents import format_named, format_of, open_source
from ..documents.format import Format
from ..documents.formats import suffixes
from ..errors import PelError
from ..pipeline.pipelines import linker_of, load_pipeline
from ..tasks.link_docs import Linking, OnError
from ..tasks.link_files import link_to_file, link_to_stream
from ..tasks.output_parts import Counts
from ..tasks.progress import Progress
from .apps import Component, OtherKB, Pipeline, SpansKey, command, pel

STDOUT = "-"


@command(
    pel,
    "link",
    after_all="what is linked is kept beside the output, and the same command goes on from there",
)
def link_cli(
    pipeline: Pipeline,
    input: Annotated[
        str,
        typer.Argument(
            help=f"A file ({suffixes('input')}; also .gz), a folder of such files, or - for stdin"
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help=f"File ({suffixes('output')}), or - for stdout")
    ] = STDOUT,
    from_: Annotated[
        str | None, typer.Option("--from", help="Format of the input; else its name decides")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Format of the output; else its name decides")
    ] = None,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Documents linked at a time")] = 128,
    n_process: Annotated[int, typer.Option(min=1, help="Processes to use")] = 1,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates written a mention")] = 5,
    on_error: Annotated[
        OnError, typer.Option(help="A bad document ends the run, or is reported and left out")
    ] = OnError.stop,
    component: Component = "proxy_linker",
) -> None:
    """Link the mentions of documents.

    \b
    format    read                                 written
    text      a document a line; in a folder,
              a document a file
    jsonl     "text", and if wanted "id" and       the same, mentions with entity,
              "mentions": [{"start", "end",        score and candidates
              "label"}]
    csv, tsv  columns "text" and, if wanted, "id"  a mention a row
    pubtator  title, abstract, mentions            the same, with the entity's id
    bioc      passages, annotations                the same, with the entity's id
    parquet                                        a mention a row, with candidates
    docbin    a Doc with its annotations           the same, with the linker's

    Where mentions are given, no others are looked for. Offsets count characters of the text; that
    of a PubTator document is title + " " + abstract, that of BioC has each passage at its offset.

    A large input is linked in parts, kept in OUTPUT.parts until all are done. After a crash or an
    interruption, run the same command again: it goes on where it was. Text, JSONL, CSV, PubTator
    and BioC are streams; DocBin is held in memory.

    \b
    Examples:
      python -m spacy pel link training/model-best notes.txt --output linked.jsonl
      python -m spacy pel link training/model-best pubmed.xml.gz -o pubmed.parquet --n-process 4
      python -m spacy pel link training/model-best notes/ -o linked.csv --on-error skip
      zcat notes.gz | python -m spacy pel link training/model-best - | head
    """
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
    linker.candidates = candidates
    linking = Linking(nlp, component, batch_size, n_process, on_error)
    _read_names(nlp)
    written_as = _output_format(output, to)
    source = open_source(input, from_)
    target = Path(output).resolve()
    if output != STDOUT and Path(input).resolve() in (target, *target.parents):
        raise PelError(f"{output}: is what is read, or in its folder", "write it somewhere else")
    if output == STDOUT and sys.stdout is None:
        raise PelError("stdout is closed", "name a file with --output")
    with Progress(source) as progress:
        if output == STDOUT:
            counts = link_to_stream(linking, source, sys.stdout.buffer, written_as, progress)
        else:
            counts = link_to_file(linking, source, Path(output), written_as, progress)
    _report(counts, linking, output)


def _read_names(nlp: Language) -> None:
    """Have the names read of which there may be millions: with progress, and before any fork."""
    from tqdm import tqdm

    from ..pipeline.kb_matcher import KBMatcher

    for _, component in nlp.pipeline:
        if isinstance(component, KBMatcher):
            component.read_names(partial(tqdm, desc="Reading names", unit=" entities"))


def _output_format(output: str, name: str | None) -> Format:
    """The format of the output; PelError if it is not known, or cannot be written."""
    if name is not None:
        format: Format | None = format_named(name)
    else:
        format = format_named("jsonl") if output == STDOUT else format_of(output)
    if format is None or format.output is None:
        raise PelError(
            f"{output}: what to write? give it one of these suffixes: {suffixes('output')}",
            "or name the format with --to",
        )
    return format


def _report(counts: Counts, linking: Linking, output: str) -> None:
    """On stderr, as stdout may be the output."""
    if counts.documents and not counts.mentions:
        typer.echo(
            f"No mention found by the pipeline ({', '.join(linking.nlp.pipe_names)}); add a "
            'component that finds some before the linker, such as a trained "ner" or '
            '"kb_matcher", or give JSONL with "mentions"',
            err=True,
        )
    skipped = f", {len(counts.skipped):,} skipped" if counts.skipped else ""
    typer.echo(
        f"Linked {counts.mentions:,} mentions of {counts.documents:,} documents{skipped}: "
        f"{'stdout' if output == STDOUT else output}",
        err=True,
    )
