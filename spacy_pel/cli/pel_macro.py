"""``pel macro``: the mean of several evaluations, each with a KB of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import PelError
from ..evaluation.linking_metrics import metrics_table
from ..evaluation.macro_average import averaged_metrics
from ..system.whole_files import whole_file
from .apps import command, msg, pel


@command(pel, "macro")
def macro_cli(
    metrics: Annotated[
        list[Path], typer.Argument(metavar="METRICS...", help='JSON files of "pel evaluate"')
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write")],
) -> None:
    """Average several evaluations.

    For ZESHEL, where each world has a KB of its own: the macro average, in which all worlds weigh
    the same, and the micro average over all mentions.

    \b
    Example:
      python -m spacy pel evaluate PIPELINE zeshel:test:lego --kb kb/lego -o metrics/lego.json
      python -m spacy pel evaluate PIPELINE zeshel:test:yugioh --kb kb/yugioh -o metrics/yugioh.json
      python -m spacy pel macro metrics/lego.json metrics/yugioh.json -o metrics/zeshel.json
    """
    averages = averaged_metrics([_metrics(path) for path in metrics])
    with whole_file(output) as file:
        json.dump({"of": [str(path) for path in metrics], **averages}, file, indent=2)
        file.write("\n")
    for name in ("macro", "micro"):
        typer.echo(f"{name.capitalize()} average of {averages['evaluations']}\n")
        typer.echo(metrics_table(averages[name]) + "\n")
    msg.good(f"Averages: {output}")


def _metrics(path: Path) -> dict[str, Any]:
    try:
        metrics = json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise PelError(
            f"{path}: no JSON ({error})", "give files that pel evaluate wrote"
        ) from error
    if not isinstance(metrics, dict) or not {"mentions", "recall@1", "mrr"} <= metrics.keys():
        raise PelError(f"{path}: no metrics of linking in it", "give files that pel evaluate wrote")
    return metrics
