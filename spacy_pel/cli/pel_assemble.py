"""``pel assemble``: a pipeline that carries its knowledge base, and says what it is and can do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from .apps import Component, Pipeline, command, pel
from .terminal import msg


@command(pel, "assemble")
def assemble_cli(
    pipeline: Pipeline,
    kb: Annotated[
        Path,
        typer.Argument(metavar="KB", help="Folder of a KB that has the pipeline's vectors"),
    ],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    metrics: Annotated[
        list[Path] | None,
        typer.Option(help='A file of "pel evaluate", for the model card; may be repeated'),
    ] = None,
    licenses: Annotated[
        Path | None,
        typer.Option(
            help="A text file: the licences of the KB's sources, of the texts and of the weights"
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the package")] = None,
    version: Annotated[str | None, typer.Option(help="Version of the package")] = None,
    description: Annotated[str | None, typer.Option(help="What the pipeline is for")] = None,
    license: Annotated[str | None, typer.Option(help="Licence of the package")] = None,
    author: Annotated[str | None, typer.Option(help="Who made the pipeline")] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the pipeline in OUT")
    ] = False,
    component: Component = "proxy_linker",
) -> None:
    """Put a pipeline and its KB in one folder.

    The folder can be moved, or packaged with "spacy package". Its meta.json and its model card
    (README.md) give the version, the KB with its releases, the licences, and the metrics. A metrics
    file must be of this linker with this KB.

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
