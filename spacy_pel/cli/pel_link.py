"""``pel link``: documents in, mentions with their entities out."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from ..documents.formats import suffixes
from ..errors import PelError
from ..jobs.document_blocks import OnError
from .apps import Component, OtherKB, Pipeline, SpansKey, command, pel
from .progress_bar import counted
from .terminal import say

if TYPE_CHECKING:
    from ..jobs.document_blocks import LinkedCounts
    from ..jobs.link_docs import LinkingChoices

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
            help=f"A file ({suffixes('input')}; also .gz), a folder of such files, the URL of one of "
            "these, FOLDER:SPLIT of MedMentions or ZESHEL, or - for stdin"
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help=f"File ({suffixes('output')}), or - for stdout; FOLDER/ for a file a block",
        ),
    ] = STDOUT,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Format of the input [default: from the file's name]"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Format of the output [default: from the file's name]"),
    ] = None,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Documents linked at a time")] = 128,
    n_process: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes to use [default: 1; of a Ray cluster one a core, or one a GPU]",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="local: this computer; ray: a Ray cluster")] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of the Ray cluster [default: Ray is started on this computer]"),
    ] = None,
    copy_kb: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Copy the linker's KB to this folder of each node of the Ray cluster, once a node; "
            "may have variables of the node, such as '$TMPDIR/kb' [default: all read the same KB]",
        ),
    ] = None,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates written for each mention")] = 5,
    xref: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VOCABULARY",
            help="Also write the codes of entities in this vocabulary, such as ICD10CM; may be repeated",
        ),
    ] = None,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="What to do at a bad document: end the run, or report it and go on without it"
        ),
    ] = OnError.stop,
    jointly: Annotated[
        bool,
        typer.Option(
            "--jointly",
            help="Link all mentions together: mentions that are alike get one entity. Needs pel "
            "calibrate --jointly",
        ),
    ] = False,
    component: Component = "proxy_linker",
) -> None:
    """Link the mentions of documents to entities.

    If a document has mentions, these are linked. Otherwise the pipeline finds the mentions.

    \b
    format    what is read                         what is written
    text      one document a line; in a folder,
              one document a file
    jsonl     "text"; optional: "id" and           the same, mentions with entity,
              "mentions": [{"start", "end",        score and candidates
              "label"}]
    csv, tsv  column "text"; optional: "id"        one row a mention
    json      a document, a list of them, an
              answer of "pel serve", BioC, or an
              export of Label Studio
    pubtator  title, abstract, mentions            the same, with the entity's id
    bioc      passages, annotations; a file of     the same, with the entity's id
              PubMed (pubmed25n0001.xml.gz)
    bioc-json passages, annotations
    parquet   one document a row, with the keys    one row a mention, with candidates
              of jsonl as columns
    docbin    docs with their annotations          the same, and the linker's
    prodigy   tasks with "text" and "spans"        the same, with "kb_id" of each span
    label-studio
              tasks of an export                   tasks with predictions

    The suffix of a file tells its format. Prodigy's is .prodigy.jsonl, Label Studio's is
    .label-studio.json; as input .jsonl and .json will do.

    Offsets count characters. The text of a PubTator document is title + " " + abstract. The text of
    a BioC document has each passage at its offset.

    A large input is linked in parts, which are kept in OUTPUT.parts until all are done. After a
    crash or an interruption, run the same command again: it goes on where it was. All formats are
    read as streams, except DocBin and JSON, which are held in memory.

    An output that ends with / is a folder. It gets one file for each block of up to 1,000 documents,
    named for the input: FOLDER/pubmed25n0001.xml.gz-00001001.jsonl begins with document 1,001. After
    a crash, run the same command again: blocks whose files are there are left out. They are also left
    out when more files are added to the input.

    --engine ray links the blocks on a Ray cluster. It needs pip install "spacy-pel[ray]". The nodes
    must have the same packages, and see the pipeline, the input and the folder at the same paths.
    Start a cluster with "ray start --head" on one computer and "ray start --address HEAD:6379" on the
    others. Without --address, Ray is started on this computer.

    \b
    Examples:
      python -m spacy pel link training/model-best notes.txt --output linked.jsonl
      python -m spacy pel link training/model-best pubmed.xml.gz -o pubmed.parquet --n-process 4
      python -m spacy pel link training/model-best notes/ -o linked.csv --on-error skip
      python -m spacy pel link training/model-best notes/ -o coded.csv --xref ICD10CM --xref SNOMEDCT_US
      python -m spacy pel link training/model-best notes/ -o review.label-studio.json
      python -m spacy pel link training/model-best notes/ -o linked.jsonl --jointly
      python -m spacy pel link training/model-best pubmed/ -o linked/ --to jsonl
      python -m spacy pel link training/model-best pubmed/ -o linked/ --to parquet --engine ray --address auto
      zcat notes.gz | python -m spacy pel link training/model-best - | head
    """
    from ..jobs.link_docs import LinkingChoices

    is_ray = engine != "local"
    if not is_ray and (address or copy_kb):
        raise PelError("--address and --copy-kb are for a Ray cluster", "add --engine ray")
    choices = LinkingChoices(
        pipeline,
        component,
        kb,
        spans_key,
        candidates,
        tuple(xref or ()),
        batch_size,
        1 if is_ray else n_process or 1,
        on_error,
        jointly,
    )
    if output.endswith(("/", os.sep)):
        cluster = {"engine": engine, "address": address, "workers": n_process, "copy_to": copy_kb}
        counts = _linked_to_folder(choices, input, output, from_, to, cluster)
    elif is_ray:
        raise PelError(
            f"{output}: a cluster writes a folder, with one file a block",
            f"end the output with a slash, as in: --output {'linked' if output == STDOUT else output}/",
        )
    else:
        counts = _linked(choices, input, _target(output), from_, to)
    _report(counts, pipeline, output)


def _linked(
    choices: LinkingChoices, input: str, target: Path | BinaryIO, from_: str | None, to: str | None
) -> LinkedCounts:
    """Link the input to one file, with bars."""
    from ..jobs.link import link_files
    from ..jobs.link_docs import read_matcher_names
    from .link_progress import LinkBar

    linking = choices.opened()
    read_matcher_names(linking.nlp, partial(counted, desc="Reading names", unit=" entities"))
    with LinkBar() as bar:
        return link_files(
            linking, input, target, input_format=from_, output_format=to, progress=bar
        )


def _linked_to_folder(
    choices: LinkingChoices,
    input: str,
    folder: str,
    from_: str | None,
    to: str | None,
    cluster: dict[str, Any],
) -> LinkedCounts:
    """Link the input to a folder of blocks, with a bar."""
    from ..jobs.link import link_to_folder
    from .link_progress import LinkBar

    with LinkBar() as bar:
        return link_to_folder(
            choices, input, folder, input_format=from_, output_format=to, progress=bar, **cluster
        )


def _target(output: str) -> Path | BinaryIO:
    if output != STDOUT:
        return Path(output)
    if sys.stdout is None:
        raise PelError("stdout is closed", "name a file with --output")
    return sys.stdout.buffer


def _report(counts: LinkedCounts, pipeline: str, output: str) -> None:
    """On stderr, as stdout may be the output."""
    from ..pipeline.pipelines import load_pipeline

    if counts.documents and not counts.mentions:
        names = ", ".join(load_pipeline(pipeline).pipe_names)
        say(
            f"No mention found by the pipeline ({names}); add a component that "
            'finds some before the linker, such as a trained "ner" or "kb_matcher", or give JSONL '
            'with "mentions"',
            err=True,
        )
    skipped = f", {len(counts.skipped):,} skipped" if counts.skipped else ""
    say(
        f"Linked {counts.mentions:,} mentions of {counts.documents:,} documents{skipped}: "
        f"{'stdout' if output == STDOUT else output}",
        err=True,
    )
