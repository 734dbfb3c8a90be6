"""Work in threads: in order, in threads that end."""

from __future__ import annotations

import threading

import pytest

from spacy_pel.system.threads import in_threads


def test_answers_come_in_order_and_each_thread_begins_and_ends() -> None:
    begun, worked = set(), set()
    barrier = threading.Barrier(3)

    def work(item: int) -> int:
        barrier.wait(timeout=30)  # three at a time, or never
        worked.add(threading.get_ident())
        return item * item

    def begin() -> None:
        begun.add(threading.get_ident())

    assert in_threads(work, range(6), 3, begin) == [0, 1, 4, 9, 16, 25]
    assert begun == worked and len(worked) == 3
    assert not worked & {thread.ident for thread in threading.enumerate()}
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda x: 1 // x, [2, 1, 0, 3], 3, begin)
