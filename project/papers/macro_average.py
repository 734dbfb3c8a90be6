"""The average of several evaluations: over evaluations (macro) and over mentions (micro).

python -m papers.macro_average metrics/lego.json metrics/yugioh.json -o metrics/zeshel.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from spacy_pel.evaluation.linking_metrics import GROUPS, metrics_table
from spacy_pel.fitting.evaluate import read_metrics
from spacy_pel.system.whole_files import whole_file

# For each group of mentions the key of its size in the result of ``linking_metrics``.
COUNTS = {group: "mentions" if group == "all" else group for group in GROUPS}


def averaged_metrics(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average several evaluations, such as those of ZESHEL's worlds.

    The macro average is the plain mean over the evaluations: each weighs the same, whatever its
    number of mentions. The micro average is the mean over the mentions of all. Counts are sums in
    both. An evaluation without a mention in a group is left out of the averages of that group.

    Args:
        metrics: The results of ``linking_metrics``, at least one.

    Returns:
        {"evaluations": n, "macro": x, "micro": y}, with x and y in the form of ``linking_metrics``.
        An average over nothing is None.
    """
    names = [name for name in metrics[0] if name.startswith("recall@") or name == "mrr"]
    counts = {field: _total(one.get(field) for one in metrics) for field in COUNTS.values()}
    macro: dict[str, Any] = {name: {} for name in names}
    micro: dict[str, Any] = {name: {} for name in names}
    for name in names:
        for group, field in COUNTS.items():
            pairs = [
                (one[name][group], one[field]) for one in metrics if one[name][group] is not None
            ]
            macro[name][group] = _mean([(value, 1) for value, _ in pairs])
            micro[name][group] = _mean(pairs)
    return {
        "evaluations": len(metrics),
        "macro": {**counts, **macro},
        "micro": {**counts, **micro},
    }


def _total(counts: Any) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _mean(pairs: Sequence[tuple[float, int]]) -> float | None:
    """The mean of pairs (value, weight)."""
    weight = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / weight if weight else None


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
