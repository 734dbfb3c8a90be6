"""The confidence interval of a mean of few runs, by Student's t-distribution."""

from __future__ import annotations

import math

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
    half = _t_quantile(level, value.runs - 1) * value.deviation / math.sqrt(value.runs)
    return value.mean - half, value.mean + half


def _t_quantile(level: float, freedom: int) -> float:
    """The t with a probability of ``level`` between -t and t, by bisection."""
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_probability(middle, freedom) < level else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _t_probability(angle: float, freedom: int) -> float:
    """The probability between -t and t, with  t = sqrt(freedom) * tan(angle).

    A finite sum for whole degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * power / (power + 1)
    return (angle + sine * total) * 2 / math.pi if odd else sine * total
