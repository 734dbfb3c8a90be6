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
    """What ``work`` returns for each item, in the order of the items.

    The threads end with the call, because a process that is forked later would wait for them
    forever. With 1 thread, or fewer than 2 items, the calling thread does the work.

    begin: called at the start of each new thread, to limit the kernels there to one thread.
    """
    if n_threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items)), initializer=begin) as pool:
        return list(pool.map(work, items))
