"""Tables of figures from several runs: means with their spread, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """What several runs gave: mean, sample standard deviation (None of one run), how many."""

    mean: float
    deviation: float | None
    runs: int


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return mean and sample standard deviation of the values; None where there is no value.

    A value that is None (not defined in its run) is left out.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return Spread(statistics.fmean(known), deviation, len(known))


def spread_text(value: Spread | None, decimals: int = 1, scale: float = 1.0) -> str:
    """Return "72.1 ± 0.4", or "72.1" of a single run, or "-"; each figure times ``scale``."""
    if value is None:
        return "-"
    text = f"{scale * value.mean:,.{decimals}f}"
    if value.deviation is None:
        return text
    return f"{text} ± {scale * value.deviation:,.{decimals}f}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns: the first to the left, the others to the right.

    Raises ValueError where a row is not as long as the header.
    """
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"a row of a table with {len(header)} columns has another number of cells")
    columns = zip(header, *rows)
    widths = [max(2, *(len(cell) for cell in column)) for column in columns]
    rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        for row in (header, *rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rules, *lines[1:]])
