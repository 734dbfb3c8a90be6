"""The mean of several runs and how far they spread."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple


class Spread(NamedTuple):
    """The values of several runs in short.

    Attributes:
        mean: Their mean.
        deviation: Their sample standard deviation; None for a single run.
        runs: The number of values.
    """

    mean: float
    deviation: float | None
    runs: int


def spread(values: Iterable[float | None]) -> Spread | None:
    """Give the mean and the sample standard deviation of values.

    Args:
        values: A value for each run; None, for a value that is not defined, is left out.

    Returns:
        None if there is no value.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return Spread(statistics.fmean(known), deviation, len(known))


def spread_text(value: Spread | None, decimals: int = 1, scale: float = 1.0) -> str:
    """Write a spread as text: "72.1 ± 0.4", "72.1" for a single run, or "-" for None.

    Args:
        value: The spread.
        decimals: The number of decimals.
        scale: What both figures are multiplied by, such as 100 for percent.
    """
    if value is None:
        return "-"
    text = f"{scale * value.mean:,.{decimals}f}"
    if value.deviation is None:
        return text
    return f"{text} ± {scale * value.deviation:,.{decimals}f}"
