"""Newton's method for logistic regressions of a few numbers. scipy would add 100 MB for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_STEPS, _ENOUGH = 100, 1e-10


def concave_maximum(
    function: Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]], start: np.ndarray
) -> np.ndarray:
    """Find where a concave function is largest.

    A step is halved until the value does not fall.

    Args:
        function: Gives, for float64 [n], its value, its gradient [n] and its negative second
            derivative [n, n], which is positive definite.
        start: float64 [n], where the search begins.

    Returns:
        float64 [n].
    """
    place = start
    value, gradient, curvature = function(place)
    for _ in range(_STEPS):
        step = np.linalg.solve(curvature, gradient)
        while np.abs(step).max() >= _ENOUGH:
            tried = function(place + step)
            if tried[0] >= value:
                break
            step = step / 2
        else:
            break
        place = place + step
        value, gradient, curvature = tried
    return place
