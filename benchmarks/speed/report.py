"""The table and the plot of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Results = dict[str, dict[str, Any]]


def table(results: Results) -> str:
    """A Markdown table with one line for each linker."""
    lines = [
        "| | recall@1 | @64 | mentions/s | document, p50 | p95 | start | memory |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, figures in results.items():
        lines.append(
            f"| {name} | {figures['recall@1']:.1f} | {figures['recall@64']:.1f} "
            f"| {figures['mentions_per_second']:.0f} | {figures['p50_ms']:.0f} ms "
            f"| {figures['p95_ms']:.0f} ms | {figures['start_s']:.1f} s "
            f"| {figures['peak_mb']:.0f} MB |"
        )
    return "\n".join(lines) + "\n"


def pareto_plot(results: Results, path: Path) -> None:
    """Plot recall@1 over speed; a line joins the linkers that no other beats in both."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    points = {name: (f["mentions_per_second"], f["recall@1"]) for name, f in results.items()}
    front = [
        point
        for point in sorted(points.values())
        if not any(
            other != point and other >= point and other[1] >= point[1] for other in points.values()
        )
    ]
    axes.plot(*zip(*front), color="0.7", linewidth=1, zorder=1)
    for number, (name, point) in enumerate(points.items(), start=1):
        color = "C1" if "scispaCy" in name else "C0"
        axes.scatter(*point, color=color, zorder=2, label=f"{number}  {name}")
        axes.annotate(str(number), point, xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    figure.legend(loc="outside right upper", fontsize=7, handlelength=0.5)
    axes.set_xlabel("mentions a second")
    axes.set_ylabel("recall@1, % of mentions whose entity is in the KB")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
