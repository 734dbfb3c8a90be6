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


def average(metrics: Sequence[Mapping[str, Any]], *, by_mention: bool) -> dict[str, Any]:
    """Average several results of ``linking_metrics``, at least one, in the same form.

    Counts are sums. An evaluation without a mention in a group is left out of the averages of that
    group; an average over nothing is None.
    """
    average: dict[str, Any] = {}
    for group in GROUPS:
        field = "mentions" if group == "all" else group
        known = [one for one in metrics if one.get(field) is not None]
        average[field] = sum(one[field] for one in known) if known else None
        counted = [one for one in known if one[field]]
        weights = [one[field] if by_mention else 1 for one in counted]
        for name in metrics[0]:
            if name.startswith("recall@") or name == "mrr":
                values = [one[name][group] for one in counted]
                mean = float(np.average(values, weights=weights)) if values else None
                average.setdefault(name, {})[group] = mean
    return average


def main(
    metrics: Annotated[list[Path], typer.Argument(help='JSON files of "pel evaluate"')],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write")],
) -> None:
    """Average several evaluations, such as those of ZESHEL's worlds, each with a KB of its own."""
    read = [read_metrics(path) for path in metrics]
    averages = {"macro": average(read, by_mention=False), "micro": average(read, by_mention=True)}
    with whole_file(output) as file:
        of = {"of": [str(path) for path in metrics], "evaluations": len(read)}
        json.dump({**of, **averages}, file, indent=2)
    for name, metrics_of in averages.items():
        print(f"{name.capitalize()} average of {len(read)}\n\n{metrics_table(metrics_of)}\n")


if __name__ == "__main__":
    typer.run(main)
