"""What a training will cost, said once: after a few steps, as soon as there is something to go by."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

# Steps after an evaluation that are timed: few, as somebody waits, and more than one, as they differ.
TIMED = 3


class Cost:
    """Forecasts how long a training takes, from its first evaluation and the steps after it.

    The first step is not timed: it also loads libraries and fills caches.

    Args:
        eval_frequency: The number of steps from an evaluation to the next.
        clock: Gives seconds.
    """

    def __init__(self, eval_frequency: int, clock: Callable[[], float] = perf_counter):
        self._every = eval_frequency
        self._clock = clock
        self._last = clock()
        self._evaluated: float | None = None  # seconds of the first evaluation
        self._steps: list[float] = []

    def forecast(self, line: dict[str, Any], expected: int | None) -> str | None:
        """What is to be said after a line of the log; mostly None.

        Args:
            line: The line, as ``run_training`` gives it as soon as a step or an evaluation is done.
            expected: The number of all steps, if it is known.
        """
        now = self._clock()
        took, self._last = now - self._last, now
        if len(self._steps) == TIMED:
            return None
        if "scores" in line:
            self._evaluated = self._evaluated or took
        elif self._evaluated is not None:
            self._steps.append(took)
        if len(self._steps) < TIMED or expected is None:
            return None
        return self._sentence(line, expected) if line["step"] < expected - 1 else None

    def _sentence(self, line: dict[str, Any], expected: int) -> str:
        """The forecast for what is left after a step."""
        step = line["step"]
        left = expected - 1 - step
        evaluations = (step + left) // self._every - step // self._every
        seconds = sum(self._steps) / TIMED
        total = left * seconds + evaluations * self._evaluated
        return (
            f"To do: {left:,} steps of {line['mentions']:,} mentions, {seconds:.1f} s each; "
            f"{evaluations:,} evaluations, {self._evaluated:.0f} s each; "
            f"together {_time(total)} at this speed"
        )


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
