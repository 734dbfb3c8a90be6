"""Figures 2 and 3 of the paper, figure 2 of KRISSBERT and figure 3 of ArboEL, from the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.plots import Line, lines_figure, save_figure

from .registry import EXPERIMENTS, FEW_SHOT, SHARES, Experiment
from .results import Results, figure
from .variants import retriever

RECALLS = np.linspace(0, 1, 101)
# The number of points of a curve whose mean is a point of the smoothed curve.
SMOOTHED = 15


def nil_curves(results: Results, corpus: str, devs: Sequence[str], path: Path) -> Path:
    """Draw figure 2, precision over recall of NIL, as PNG and SVG; the path of the PNG.

    A curve is the mean over seeds.
    """
    panels = {dev: {} for dev in devs}
    for variant in EXPERIMENTS["nil"].variants:
        lines = results.by_seed(corpus, variant.name).values()
        for dev in devs:
            curves = [line["metrics"][dev]["nil"]["curve"] for line in lines]
            if drawn := [_at_recalls(curve) for curve in curves if curve]:
                name = variant.name.replace(", mixed 32", "")
                panels[dev][name] = Line(RECALLS, np.mean(drawn, axis=0))
    figure = lines_figure(panels, "recall of NIL", "precision of NIL", y_range=(0, 1.02))
    return save_figure(figure, path)[0]


def gradient_norms(results: Results, corpus: str, path: Path) -> Path:
    """Draw figure 3, gradient norms over steps, as PNG and SVG; the path of the PNG.

    A curve is smoothed. It is the mean over seeds, with a band of their standard deviation.
    """
    panels: dict[str, dict[str, Line]] = {"random negatives": {}, "mixed-50 % negatives": {}}
    for lines, kind in zip(panels.values(), ("random", "mixed")):
        for loss in ("CE", "Pb"):
            runs = results.by_seed(corpus, retriever(loss, kind).name).values()
            curves = [run["training"]["gradient_norms"] for run in runs]
            if curves:
                lines[loss] = _mean_line(curves)
    figure = lines_figure(panels, "step", "gradient norm, smoothed", log_y=True)
    return save_figure(figure, path)[0]


def recall_over_steps(results: Results, experiment: Experiment, corpus: str, path: Path) -> Path:
    """Draw recall@1 over the steps of training, as PNG and SVG; the path of the PNG.

    A curve is the mean over seeds, with a band of their standard deviation. Its first point is step
    0. It is of the sample of dev sets and knowledge base that is evaluated during training.
    """
    lines = {}
    for variant in experiment.variants:
        runs = results.by_seed(corpus, variant.name).values()
        curves = [run["training"]["curve"] for run in runs if "curve" in run["training"]]
        if curves:
            length = min(len(curve["step"]) for curve in curves)
            values = np.array([curve["recall@1"][:length] for curve in curves])
            deviation = values.std(axis=0, ddof=1) if len(curves) > 1 else ()
            lines[variant.name] = Line(curves[0]["step"][:length], values.mean(axis=0), deviation)
    figure = lines_figure({"": lines}, "step", "recall@1 during training")
    return save_figure(figure, path)[0]


def few_shot_curves(results: Results, corpus: str, devs: Sequence[str], path: Path) -> Path:
    """Draw recall@1 over the share of training documents, as PNG and SVG; the path of the PNG.

    A point is the mean over seeds. Shares that were not run are left out.
    """
    panels = {dev: {} for dev in devs}
    for kind, variants in FEW_SHOT.items():
        runs = [results.by_seed(corpus, variant.name).values() for variant in variants]
        shares = [share for share, lines in zip(SHARES, runs) if lines]
        for dev in devs:
            at_1 = [[line["metrics"][dev]["recall@1"]["in_kb"] for line in lines] for lines in runs]
            panels[dev][kind] = Line(shares, [np.mean(each) for each in at_1 if each])
    drawn = lines_figure(panels, "% of the training documents", "recall@1")
    return save_figure(drawn, path)[0]


def recall_of_both_kinds(
    results: Results, experiment: Experiment, corpus: str, devs: Sequence[str], path: Path
) -> Path:
    """Draw ArboEL's figure 3, linking recall@64 over coreference recall@64, as PNG and SVG.

    A point is the mean of a variant over seeds. Returns the path of the PNG.
    """
    axes = (("jointly", "coreference_recall@64"), ("recall@64", "in_kb"))
    panels: dict[str, dict[str, Line]] = {dev: {} for dev in devs}
    for variant in experiment.variants:
        lines = results.by_seed(corpus, variant.name).values()
        for dev in devs:
            points = [[figure(line, dev, axis) for axis in axes] for line in lines]
            points = [point for point in points if None not in point]
            if points:
                x, y = np.mean(points, axis=0)
                panels[dev][variant.name] = Line([x], [y])
    drawn = lines_figure(panels, "coreference recall@64", "linking recall@64")
    return save_figure(drawn, path)[0]


def _at_recalls(curve: dict[str, list[float]]) -> np.ndarray:
    """Precision at 101 levels of recall; beyond the curve's end, the precision of its last point."""
    return np.interp(RECALLS, curve["recall"], curve["precision"])


def _mean_line(curves: list[dict[str, Any]]) -> Line:
    """The mean of the smoothed curves, over the steps that all of them have."""
    length = min(len(curve["norm"]) for curve in curves)
    smooth = np.array([_smoothed(curve["norm"][:length]) for curve in curves])
    deviation = smooth.std(axis=0, ddof=1) if len(curves) > 1 else ()
    return Line(curves[0]["step"][:length], smooth.mean(axis=0), deviation)


def _smoothed(values: list[float]) -> np.ndarray:
    """For each value the mean of it and the values just before it."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - SMOOTHED)
    return (sums[ends] - sums[starts]) / (ends - starts)
