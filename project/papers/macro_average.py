"""The average of several evaluations: over evaluations (macro) and over mentions (micro).

python -m papers.macro_average metrics/lego.json metrics/yugioh.json -o metrics/zeshel.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spacy_pel.evaluation.linking_metrics import GROUPS, metrics_table
from spacy_pel.fitting.evaluate import read_metrics
from spacy_pel.system.whole_files import whole_file


def averaged_metrics(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average several results of ``linking_metrics``, at least one.

    Counts are sums. An evaluation without a mention in a group is left out of the averages of that
    group; an average over nothing is None.

    Returns:
        {"evaluations": n, "macro": x, "micro": y}, with x and y in the form of ``linking_metrics``.
    """
    averages: dict[str, dict[str, Any]] = {"macro": {}, "micro": {}}
    names = [name for name in metrics[0] if name.startswith("recall@") or name == "mrr"]
    for group in GROUPS:
        field = "mentions" if group == "all" else group
        known = [one for one in metrics if one.get(field) is not None]
        counted = [one for one in known if one[field]]
        sizes = [one[field] for one in counted]
        for kind, weights in (("macro", np.ones(len(sizes))), ("micro", sizes)):
            averages[kind][field] = sum(one[field] for one in known) if known else None
            for name in names:
                values = [one[name][group] for one in counted]
                mean = float(np.average(values, weights=weights)) if values else None
                averages[kind].setdefault(name, {})[group] = mean
    return {"evaluations": len(metrics), **averages}


def main(
    metrics: Annotated[list[Path], typer.Argument(help='JSON files of "pel evaluate"')],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write")],
) -> None:
    """Average several evaluations, such as those of ZESHEL's worlds, each with a KB of its own."""
    averages = averaged_metrics([read_metrics(path) for path in metrics])
    with whole_file(output) as file:
        json.dump({"of": [str(path) for path in metrics], **averages}, file, indent=2)
    for name in ("macro", "micro"):
        print(f"{name.capitalize()} average of {averages['evaluations']}\n")
        print(metrics_table(averages[name]) + "\n")


if __name__ == "__main__":
    typer.run(main)
