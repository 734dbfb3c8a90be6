"""What a training was like, from its log.jsonl."""

from __future__ import annotations

import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

# Of a curve in the results.
POINTS = 200


def training_summary(log: Path, warmup_steps: int, alpha: float) -> dict[str, Any]:
    """Figures of a training: time, inputs encoded, memory, gradient norms.

    log: see ``pel train``. warmup_steps: these are left out of mean and variance of the norms.
    alpha: of the loss, whose gradients grow with it; 1 where it has none. "variance_over_alpha" is
    the variance for the loss divided by it.

    ``seconds`` are of steps alone. ``passes`` are inputs that went through an encoder: "mentions",
    "proxies" (FGSM's second pass included), "index" (for hard negatives; not for evaluations) and
    "pairs" (of a reranker). Per epoch they are given where at least one epoch was finished.
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
        "seconds_per_epoch": epochs and last["seconds"] / epochs,
        "passes": passes,
        "passes_per_epoch": epochs and {name: n / epochs for name, n in passes.items()},
        "memory_mb": last["memory_mb"],
        "gradient_norm": _norm_summary(norms[warmup_steps:], alpha),
        "gradient_norms": _windows(norms),
    }


def _passes(lines: list[dict]) -> dict[str, int]:
    """Inputs encoded for training: what an evaluation encodes lies between it and the next step."""
    counts = [line for line in lines if "loss" in line][-1]["counts"]
    index = lines[0]["counts"]["index_inputs"]
    for before, line in pairwise(lines):
        if "loss" in before and "loss" in line:
            index += line["counts"]["index_inputs"] - before["counts"]["index_inputs"]
    names = {"mentions": "mention_inputs", "proxies": "entity_inputs", "pairs": "pair_inputs"}
    return {name: counts[key] for name, key in names.items()} | {"index": index}


def _epochs(steps: list[dict]) -> float | None:
    """How often the corpus was gone through; None if not to its end."""
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
    """Mean of each of up to 200 equal stretches of steps, by the stretch's last step."""
    ends = sorted({round((n + 1) * len(values) / POINTS) for n in range(POINTS)} - {0})
    parts = [values[start:end] for start, end in pairwise([0, *ends])]
    return {"step": ends, "norm": [float(f"{statistics.fmean(part):.4g}") for part in parts]}
