"""Look-ups of records in all segments of a KB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..system.damaged_files import damaged
from .records.store import EntityStore
from .segment import Segment

T = TypeVar("T")


def looked_up(
    segments: Sequence[Segment],
    look_up: Callable[[EntityStore, np.ndarray], list[T]],
    numbers: Sequence[int] | np.ndarray,
) -> list[T]:
    """What the stores return for these numbers of a KB, in order; IndexError for an unknown one."""
    wanted = np.asarray(numbers, dtype=np.int64)
    firsts = [segment.first for segment in segments]
    owners = np.searchsorted(firsts, wanted, side="right") - 1
    answers: list = [None] * len(wanted)
    for owner in np.unique(owners):
        places = np.flatnonzero(owners == owner)
        segment = segments[max(owner, 0)]
        local = wanted[places] - segment.first
        segment.check(local)
        try:
            found = look_up(segment.store, local)
        except IndexError as error:
            raise damaged(segment.store.path, f"lacks a record ({error})") from error
        for place, answer in zip(places.tolist(), found):
            answers[place] = answer
    return answers


def numbers_of(segments: Sequence[Segment], ids: Sequence[str]) -> np.ndarray:
    """The numbers of the entities with these concept ids: int64; -1 for those that are not there."""
    numbers = np.full(len(ids), -1, dtype=np.int64)
    for segment in segments:
        local = segment.store.numbers(ids)
        there = np.flatnonzero(local >= 0)
        there = there[np.isin(local[there], segment.without_removed(local[there]))]
        numbers[there] = local[there] + segment.first
    return numbers
