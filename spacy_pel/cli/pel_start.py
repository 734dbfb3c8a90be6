"""``pel start``, ``assemble``, ``average`` and ``doctor``: pipelines as a whole."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ..errors import PelError
from .apps import (
    AsJson,
    Component,
    Force,
    OtherKB,
    Pipeline,
    Sources,
    command,
    pel,
    sources_and_folder,
)
from .terminal import encoding, msg, reading, say

Out = Annotated[Path, Argument(help="Folder to make")]
# By the state of a finding.
_MARKS = {
    "ok": ("ok    ", typer.colors.GREEN),
    "note": ("note  ", typer.colors.YELLOW),
    "broken": ("BROKEN", typer.colors.RED),
}


@command(
    pel,
    "start",
    after_all="what is done is kept beside OUT, and the same command goes on from there",
)
def start_cli(
    paths: Sources,
    encoder: Annotated[
        str | None,
        Option(
            help="A BERT, by its Hugging Face name or its folder, or a pipeline with a trained "
            "linker [default: en_pel_mesh_sm, if it is installed]"
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Make a pipeline that links to your ontology.

    This needs no annotations and no training. It builds a knowledge base of the sources, and computes
    a vector for each name with the encoder: some 4 minutes for 50,000 names with a BERT of 6 layers on
    one core. The pipeline marks the names of the ontology in texts and links them. OUT holds
    everything and can be moved.

    If a source needs options, build a KB from it first, with "kb build", and give its folder as
    SOURCE. After an interruption, run the same command again: it goes on where it was.

    \b
    Examples:
      python -m spacy pel start hp.obo linker --encoder sentence-transformers/all-MiniLM-L6-v2
      python -m spacy pel start mondo.obo hp.obo linker --encoder models/sapbert
    """
    from ..packaging.start import start

    sources, out = sources_and_folder(paths)
    began = time.perf_counter()
    shown = {"reading": reading, "encoding": encoding, "report": msg.info}
    made = start(sources, out, encoder=encoder, force=force, **shown)
    rows = made.settings["vectors"]["rows"]
    msg.good(
        f"Made {out}: it links to {len(made):,} entities with {rows:,} vectors, in "
        f"{time.perf_counter() - began:.1f} s"
    )
    say(f"To link texts: python -m spacy pel link {out} texts.txt --output linked.jsonl")
    say(f"To see it: python -m spacy pel serve {out}")


@command(pel, "assemble")
def assemble_cli(
    pipeline: Pipeline,
    kb: Annotated[Path, Argument(metavar="KB", help="Folder of a KB with the pipeline's vectors")],
    out: Out,
    metrics: Annotated[
        list[Path] | None, Option(help='File of "pel evaluate", for the card; may be repeated')
    ] = None,
    licenses: Annotated[
        Path | None, Option(help="Text file: licences of the KB's sources, the texts, the weights")
    ] = None,
    name: Annotated[str | None, Option(help="Name of the package")] = None,
    version: Annotated[str | None, Option(help="Version of the package")] = None,
    description: Annotated[str | None, Option(help="What the pipeline is for")] = None,
    license: Annotated[str | None, Option(help="Licence of the package")] = None,
    author: Annotated[str | None, Option(help="Who made the pipeline")] = None,
    force: Force = False,
    component: Component = "proxy_linker",
) -> None:
    """Put a pipeline and its KB in one folder.

    The folder can be moved, or packaged with "spacy package". Its meta.json and its model card
    (README.md) give the version, the KB with its releases, the licences, and the metrics.

    \b
    Example:
      python -m spacy pel evaluate training/model-best test.pubtator --output test.json
      python -m spacy pel assemble training/model-best kb release --metrics test.json
        --licenses LICENSES.txt --name umls_linker --version 1.0.0
      python -m spacy package release packages --build wheel
      pip install packages/en_umls_linker-1.0.0/dist/en_umls_linker-1.0.0-py3-none-any.whl
    """
    from ..packaging.assemble import PackageInfo, assemble, check_replaceable
    from ..pipeline.pipelines import load_pipeline

    check_replaceable(out, force=force)
    try:
        notes = licenses.read_text("utf8") if licenses else ""
    except UnicodeDecodeError as error:
        raise PelError(f"{licenses}: not UTF-8", "save it as UTF-8") from error
    info = PackageInfo(name, version, description, license, author, tuple(metrics or ()), notes)
    assemble(load_pipeline(pipeline), kb, out, component=component, info=info)
    if not notes:
        msg.warn("It has no notes on licences: before you pass it on, give some with --licenses")
    msg.good(f"Assembled {out}; to package it: python -m spacy package {out} PACKAGES -b wheel")


@command(pel, "average")
def average_cli(
    pipeline: Pipeline,
    encoder: Annotated[
        str, Argument(help="What the training began with: a BERT, or a pipeline with a linker")
    ],
    out: Out,
    share: Annotated[
        float, Option(min=0.0, max=1.0, help="How much trained weights count; ENCODER's the rest")
    ] = 0.5,
    force: Force = False,
    component: Component = "proxy_linker",
) -> None:
    """Average a trained linker with its encoder before training.

    After a training on other texts than yours, such as mined mentions, the average often links better
    than either: measure both. It needs new vectors, and has to be calibrated again.

    \b
    Example:
      python -m spacy pel average training/model-last sentence-transformers/all-MiniLM-L6-v2 linker
      python -m spacy pel kb embed kb linker
    """
    from ..packaging.assemble import check_replaceable
    from ..packaging.average_weights import average_weights
    from ..pipeline.pipelines import load_pipeline
    from ..system.whole_files import whole_folder

    check_replaceable(out, force=force)
    nlp = load_pipeline(pipeline)
    average_weights(nlp, encoder, share, component=component)
    with whole_folder(out) as folder:
        nlp.to_disk(folder)
    msg.good(f"Averaged: {out}; it needs vectors: python -m spacy pel kb embed KB {out}")


@command(pel, "doctor", no_args_is_help=False)
def doctor_cli(
    pipeline: Annotated[str | None, Argument(help="Folder or name of a trained pipeline")] = None,
    kb: OtherKB = None,
    component: Component = "proxy_linker",
    as_json: AsJson = False,
) -> None:
    """Check the installation, a pipeline and its KB.

    Prints what was found, and what to do about it. The exit code is 1 if linking would fail.

    \b
    Examples:
      python -m spacy pel doctor
      python -m spacy pel doctor training/model-best --kb kb/other --json
    """
    from ..packaging.diagnose import BROKEN, diagnose

    findings = list(diagnose(pipeline, kb, component))
    if as_json:
        say(json.dumps([finding._asdict() for finding in findings], indent=2))
    for finding in () if as_json else findings:  # wasabi would break paths and commands
        mark, colour = _MARKS[finding.state]
        say(f"{mark} {finding.subject}: {finding.found}", fg=colour)
        if finding.remedy:
            say(f"    -> {finding.remedy}")
    if any(finding.state == BROKEN for finding in findings):
        raise typer.Exit(1)
