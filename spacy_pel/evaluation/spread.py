"""The mean of several runs and how far they spread."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
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
