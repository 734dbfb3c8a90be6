"""How the time of a piece of work grows with the size of its input."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMES = 8


def assert_linear(work: Callable[[T], object], made: Callable[[int], T], size: int) -> None:
    """Check that eight times the input takes less than 32 times as long; a square would be 64.

    Args:
        work: What is timed.
        made: Makes an input of a size.
        size: The smaller size. The work on it should take some milliseconds.
    """
    small, large = made(size), made(TIMES * size)
    work(made(10))  # what is imported or cached at the first use
    took = min(_seconds(work, small) for _ in range(3))
    limit = 4 * TIMES * max(took, 0.002)
    assert any(_seconds(work, large) < limit for _ in range(2)), f"{limit:.3f} seconds exceeded"


def _seconds(work: Callable[[T], object], input: T) -> float:
    began = time.process_time()
    work(input)
    return time.process_time() - began
