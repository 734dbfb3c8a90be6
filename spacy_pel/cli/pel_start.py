"""``pel start``: from an ontology to a pipeline that links, in one step."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from .apps import command, pel
from .progress_bar import counted, progress_bar
from .terminal import msg


@command(
    pel,
    "start",
    after_all="what is done is kept beside OUT, and the same command goes on from there",
)
def start_cli(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE... OUT",
            help='Files or folders that "kb build" can read; last, the folder to make',
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            help="A BERT, by its Hugging Face name or its folder, or a pipeline with a trained "
            "linker [default: en_pel_mesh_sm, if it is installed]"
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the pipeline in OUT")
    ] = False,
) -> None:
    """Make a pipeline that links to your ontology.

    This needs no annotations and no training. It builds a knowledge base of the sources, and computes
    a vector for each name with the encoder. That takes most of the time: with a BERT of 6 layers some
    4 minutes for 50,000 names on one core. The pipeline marks the names of the ontology in texts and
    links them. OUT holds everything and can be moved.

    If a source needs options, build a KB from it first, with "kb build", and give its folder as
    SOURCE. After an interruption, run the same command again: it goes on where it was.

    \b
    Examples:
      python -m spacy pel start hp.obo linker --encoder sentence-transformers/all-MiniLM-L6-v2
      python -m spacy pel start mondo.obo hp.obo linker --encoder models/sapbert
      python -m spacy pel link linker notes.txt --output linked.jsonl
    """
    from ..packaging.start import start

    if len(paths) < 2:
        raise PelError(
            f"{paths[0]}: the last path is the folder to make", "name it after the source"
        )
    *sources, out = paths
    began = time.perf_counter()
    made = start(
        sources,
        out,
        encoder=encoder,
        force=force,
        reading=lambda entities, name: counted(entities, f"Reading {name}", " entities"),
        encoding=partial(progress_bar, desc="Encoding", unit=" entities"),
        report=msg.info,
    )
    rows = made.settings["vectors"]["rows"]
    msg.good(
        f"Made {out}: it links to {len(made):,} entities with {rows:,} vectors, in "
        f"{time.perf_counter() - began:.1f} s"
    )
    typer.echo(
        f"To link texts: python -m spacy pel link {out} texts.txt --output linked.jsonl\n"
        f"To see it: python -m spacy pel serve {out}"
    )
