"""What a training is said to cost, with a clock of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spacy_pel.cli.training_cost import Cost


def said(lines: Iterable[tuple[str, int, float]], every: int, expected: int | None) -> list:
    """What is said at each line, which is of a "step" or an "evaluation" and takes some seconds."""
    times = [0.0]
    for _, _, seconds in lines:
        times.append(times[-1] + seconds)
    clock: Iterator[float] = iter(times)
    cost = Cost(every, clock=lambda: next(clock))
    return [cost.forecast(_line(what, step), expected) for what, step, _ in lines]


def _line(what: str, step: int) -> dict:
    return {"step": step, "mentions": 64} | ({"scores": {}} if what == "evaluation" else {})


def test_said_once_and_without_the_slow_first_step() -> None:
    lines = [("step", 0, 60.0), ("evaluation", 0, 30.0)]
    lines += [("step", step, seconds) for step, seconds in enumerate((1, 2, 3, 50, 50), start=1)]
    *before, forecast, _, after = said(lines, every=100, expected=401)
    assert before == [None] * 4 and after is None
    # 397 steps of 2 seconds, and evaluations after steps 100, 200, 300 and 400 of 30.
    assert forecast == (
        "To do: 397 steps of 64 mentions, 2.0 s each; 4 evaluations, 30 s each; "
        "together 15 minutes at this speed"
    )


def test_a_resumed_run_waits_for_its_first_evaluation() -> None:
    lines = [("step", step, 4.0) for step in range(101, 201)] + [("evaluation", 200, 8.0)]
    lines += [("step", step, 4.0) for step in (201, 202, 203)]
    *before, forecast = said(lines, every=100, expected=2001)
    assert not any(before)
    assert "1,797 steps" in forecast and "18 evaluations" in forecast and "2.0 hours" in forecast


def test_nothing_is_said_where_nothing_is_known_or_left() -> None:
    lines = [("step", 0, 1.0), ("evaluation", 0, 1.0)]
    lines += [("step", step, 1.0) for step in (1, 2, 3)]
    assert not any(said(lines, every=10, expected=None))
    assert not any(said(lines, every=10, expected=4))
    assert said(lines, every=10, expected=5)[-1].endswith("together 1 s at this speed")
