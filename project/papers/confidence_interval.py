"""The confidence interval of a mean of few runs, by Student's t-distribution."""

from __future__ import annotations

from scipy.stats import t

from .spread import Spread


def confidence_interval(value: Spread, level: float = 0.95) -> tuple[float, float] | None:
    """Give the interval that holds the true mean with the given confidence.

    It is  mean ± t * deviation / sqrt(runs),  with the quantile t of Student's distribution with
    runs - 1 degrees of freedom (for three runs and 95 %: 4.30). The runs are taken as independent
    and normally distributed.

    Args:
        value: The mean and the deviation of the runs.
        level: The confidence, between 0 and 1.

    Returns:
        The lower and the upper end. None for a single run.
    """
    if value.deviation is None:
        return None
    half = t.interval(level, value.runs - 1)[1] * value.deviation / value.runs**0.5
    return value.mean - half, value.mean + half
