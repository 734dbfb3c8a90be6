"""Figures of lines side by side, as PNG and SVG. Needs matplotlib (extra "project")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito (2008): told apart by colour-blind readers as well; dashes tell them in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")


class Line(NamedTuple):
    """Points of one line, rising in x; with ``spread``, a band of y - spread to y + spread."""

    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()


def lines_figure(
    panels: Mapping[str, Mapping[str, Line]],
    x_label: str,
    y_label: str,
    *,
    y_range: tuple[float, float] | None = None,
    log_y: bool = False,
) -> Figure:
    """Return a figure of panels by title, each of lines by name; a name has one colour in all.

    The legend stands in the panel where it hides least. y_range: the same for all panels;
    log_y: a logarithmic scale.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    figure = Figure(figsize=(1 + 4.5 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, lines) in zip(axes, panels.items()):
        for name, line in lines.items():
            number = names.index(name)
            colour = COLOURS[number % len(COLOURS)]
            dash = DASHES[number % len(DASHES)]
            axis.plot(line.x, line.y, dash, color=colour, label=name, linewidth=1.6)
            if len(line.spread):
                low = [y - s for y, s in zip(line.y, line.spread)]
                high = [y + s for y, s in zip(line.y, line.spread)]
                axis.fill_between(line.x, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.set(title=title, xlabel=x_label)
        axis.grid(alpha=0.3)
        if lines:
            axis.legend(fontsize="small")
    axes[0].set_ylabel(y_label)
    if log_y:
        axes[0].set_yscale("log")
        axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes[0].yaxis.set_major_formatter(ScalarFormatter())  # 3 rather than 3 x 10^0
        axes[0].yaxis.set_minor_formatter(NullFormatter())
        # A spread may reach below 0, which has no place on this scale.
        lines = [line for panel in panels.values() for line in panel.values()]
        axes[0].set_ylim(bottom=min((y for line in lines for y in line.y), default=2) / 2)
    if y_range:
        axes[0].set_ylim(*y_range)
    return figure


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write a figure beside ``path`` with the endings .png and .svg; return the two paths.

    The same figure gives the same bytes: no dates, no random ids.
    """
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for ending, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        written.append(path.with_name(path.name + ending))
        with matplotlib.rc_context({"svg.hashsalt": "spacy_pel"}):
            figure.savefig(written[-1], dpi=150, metadata=metadata)
    return written
