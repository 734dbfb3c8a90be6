"""Spreads work over threads, for kernels that are too small to use several threads well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(
    work: Callable[[T], R], items: Sequence[T], n_threads: int, begin: Callable[[], None]
) -> list[R]:
    """What ``work`` returns for each item, in order. The threads end with the call: after a fork, a
    process would wait for them forever. ``begin`` is called in each, to limit the kernels there.
    """
    if n_threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items)), initializer=begin) as pool:
        return list(pool.map(work, items))
