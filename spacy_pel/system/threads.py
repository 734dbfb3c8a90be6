"""Work shared out among threads, for kernels that are too small to share theirs out well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(
    work: Callable[[T], R], items: Sequence[T], n_threads: int, begin: Callable[[], None]
) -> list[R]:
    """What ``work`` returns for each item, in their order.

    begin: called in each thread at its start, to let the kernels in it compute with one thread. It
    is not called where one thread does all; that is the one that called.
    Threads end with the call: a process that is forked later would wait for them for ever.
    """
    if n_threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items)), initializer=begin) as pool:
        return list(pool.map(work, items))
