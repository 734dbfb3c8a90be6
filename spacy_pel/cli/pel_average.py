"""``pel average``: the weights of a trained linker and of its encoder before training, averaged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .apps import Component, Pipeline, command, pel
from .terminal import msg


@command(pel, "average")
def average_cli(
    pipeline: Pipeline,
    encoder: Annotated[
        str,
        typer.Argument(
            help="What the training began with: a BERT, by its Hugging Face name or its folder, or "
            "a pipeline with a trained linker"
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    share: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="How much the trained weights count; ENCODER's the rest"
        ),
    ] = 0.5,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the pipeline in OUT")
    ] = False,
    component: Component = "proxy_linker",
) -> None:
    """Average a trained linker with its encoder before training.

    Training on other texts than yours, such as mined mentions, gains and harms. The average often
    links better than either: measure both. Linking takes no longer. The KB then needs new vectors;
    thresholds and probabilities have to be calibrated again.

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
