"""Figures of a training, from its log.jsonl."""

from __future__ import annotations

import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

# The largest number of points of a curve in the results.
POINTS = 200


def training_summary(log: Path, warmup_steps: int, alpha: float) -> dict[str, Any]:
    """Sum up a training: its time, inputs encoded, memory and gradient norms.

    Args:
        log: The log; see ``pel train``.
        warmup_steps: The number of first steps that are left out of the mean and the variance of
            the gradient norms.
        alpha: The alpha of the loss, which its gradients grow with; 1 if the loss has none.

    Returns:
        Plain data. "seconds" is the time of steps alone. "passes" are the inputs that went through
        an encoder: "mentions", "proxies" (with FGSM's second pass), "index" (for hard negatives,
        not for evaluations) and "pairs" (of a reranker). What is per epoch is None if no epoch was
        finished. "variance_over_alpha" is the variance of the gradients of loss / alpha.
    """
    lines = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines()]
    steps = [line for line in lines if "loss" in line]
    last, passes = steps[-1], _passes(lines)
    epochs = _epochs(steps)
    norms = [line["gradient_norm"] for line in steps]
    return {
        "steps": len(steps),
        "epochs": epochs,
        "seconds": last["seconds"],
        "seconds_per_step": last["seconds"] / len(steps),
        "seconds_per_epoch": epochs and last["seconds"] / epochs,
        "passes": passes,
        "passes_per_step": {name: n / len(steps) for name, n in passes.items()},
        "passes_per_epoch": epochs and {name: n / epochs for name, n in passes.items()},
        "memory_mb": last["memory_mb"],
        "gradient_norm": _norm_summary(norms[warmup_steps:], alpha),
        "gradient_norms": _windows(norms),
    }


def recall_curve(log: Path) -> dict[str, list[float]]:
    """Give recall@1 of the evaluations of a training, which search a part of the knowledge base.

    The first is of step 0: the learning rate begins at 0, so it is that of the untrained encoder.

    Args:
        log: The log; see ``pel train``.

    Returns:
        {"step": [...], "recall@1": [...]}, lists of one length.
    """
    lines = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines()]
    found = [line for line in lines if "scores" in line]
    return {
        "step": [line["step"] for line in found],
        "recall@1": [line["scores"]["nel_recall_at_1"] for line in found],
    }


def _passes(lines: list[dict]) -> dict[str, int]:
    """The inputs encoded for training, without those encoded for evaluations.

    An evaluation's inputs are counted between the step before it and the step after it.
    """
    counts = [line for line in lines if "loss" in line][-1]["counts"]
    index = lines[0]["counts"]["index_inputs"]
    for before, line in pairwise(lines):
        if "loss" in before and "loss" in line:
            index += line["counts"]["index_inputs"] - before["counts"]["index_inputs"]
    names = {"mentions": "mention_inputs", "proxies": "entity_inputs", "pairs": "pair_inputs"}
    return {name: counts[key] for name, key in names.items()} | {"index": index}


def _epochs(steps: list[dict]) -> float | None:
    """The number of passes over the corpus; None if the first was not finished."""
    a_step_of_the_second = next((n for n, line in enumerate(steps) if line["epoch"] > 0), None)
    return a_step_of_the_second and len(steps) / a_step_of_the_second


def _norm_summary(norms: list[float], alpha: float) -> dict[str, float | None]:
    known = len(norms) > 1
    mean = statistics.fmean(norms) if known else None
    variance = statistics.variance(norms) if known else None
    return {
        "mean": mean,
        "variance": variance,
        "variance_over_alpha": variance / alpha**2 if known else None,
        "relative_variance": variance / mean**2 if known else None,
    }


def _windows(values: list[float]) -> dict[str, list[float]]:
    """The means of up to 200 equal stretches of steps, each with the last step of its stretch."""
    ends = sorted({round((n + 1) * len(values) / POINTS) for n in range(POINTS)} - {0})
    parts = [values[start:end] for start, end in pairwise([0, *ends])]
    return {"step": ends, "norm": [float(f"{statistics.fmean(part):.4g}") for part in parts]}
