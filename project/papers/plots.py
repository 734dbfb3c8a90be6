"""Line plots, side by side, as PNG and SVG. They need matplotlib (the extra "project")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of Okabe and Ito (2008), which colour-blind readers can tell apart, and dashes for grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
# Of lines that are one point.
MARKERS = ("o", "s", "D", "^", "v", "<", ">", "P", "X")


class Line(NamedTuple):
    """One line of a plot; of one point, a mark.

    Attributes:
        x: The points' x, rising.
        y: The points' y.
        spread: For each point half the height of a band around it; () for no band.
    """

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
    """Draw panels side by side.

    Args:
        panels: For each panel, by its title, the lines by their names. Lines of one name have one
            colour in all panels.
        x_label: The label of every x axis.
        y_label: The label of the y axis, which the panels share.
        y_range: The ends of the y axis; None to fit them to the lines.
        log_y: Use a logarithmic y axis.
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
            mark = MARKERS[number % len(MARKERS)] if len(line.x) == 1 else None
            style = dash if mark is None else "none"
            axis.plot(
                line.x, line.y, ls=style, marker=mark, color=colour, label=name, linewidth=1.6
            )
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
        # A band may reach below 0, which a logarithmic axis cannot show.
        lines = [line for panel in panels.values() for line in panel.values()]
        axes[0].set_ylim(bottom=min((y for line in lines for y in line.y), default=2) / 2)
    if y_range:
        axes[0].set_ylim(*y_range)
    return figure


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and as SVG.

    The same figure gives the same bytes: the files hold no dates and no random ids.

    Args:
        figure: The figure.
        path: The path of both files without their endings; its folder is made.

    Returns:
        The paths of the two files.
    """
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for ending, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        written.append(path.with_name(path.name + ending))
        with matplotlib.rc_context({"svg.hashsalt": "spacy_pel"}):
            figure.savefig(written[-1], dpi=150, metadata=metadata)
    return written
