"""``pel macro``: the mean of several evaluations, each with a KB of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .apps import command, pel
from .terminal import msg, say


@command(pel, "macro")
def macro_cli(
    metrics: Annotated[
        list[Path], typer.Argument(metavar="METRICS...", help='JSON files of "pel evaluate"')
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write")],
) -> None:
    """Average several evaluations.

    This is for ZESHEL, where each world has a KB of its own. The macro average gives every world
    the same weight. The micro average gives every mention the same weight.

    \b
    Example:
      python -m spacy pel evaluate PIPELINE zeshel:test:lego --kb kb/lego -o metrics/lego.json
      python -m spacy pel evaluate PIPELINE zeshel:test:yugioh --kb kb/yugioh -o metrics/yugioh.json
      python -m spacy pel macro metrics/lego.json metrics/yugioh.json -o metrics/zeshel.json
    """
    from ..evaluation.linking_metrics import metrics_table
    from ..tasks.metrics_files import average_metrics

    averages = average_metrics(metrics, output)
    for name in ("macro", "micro"):
        say(f"{name.capitalize()} average of {averages['evaluations']}\n")
        say(metrics_table(averages[name]) + "\n")
    msg.good(f"Averages: {output}")
