from __future__ import annotations

import threading

import pytest

from spacy_pel.system.threads import in_threads


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_answers_come_in_the_order_of_the_items(n_threads: int) -> None:
    assert in_threads(lambda x: x * x, range(20), n_threads, lambda: None) == [
        x * x for x in range(20)
    ]
    assert in_threads(lambda x: x, [], n_threads, lambda: None) == []


def test_each_thread_begins_and_all_of_them_end() -> None:
    begun, worked = set(), set()
    barrier = threading.Barrier(3)

    def work(item: int) -> None:
        barrier.wait(timeout=30)  # three at a time, or never
        worked.add(threading.get_ident())

    in_threads(work, range(6), 3, lambda: begun.add(threading.get_ident()))
    assert begun == worked and len(worked) == 3
    assert threading.get_ident() not in worked
    assert not worked & {thread.ident for thread in threading.enumerate()}


@pytest.mark.parametrize("n_threads, items", [(1, [1, 2]), (4, [1])])
def test_one_thread_is_the_one_that_called(n_threads: int, items: list[int]) -> None:
    begun: list[int] = []
    threads = in_threads(lambda _: threading.get_ident(), items, n_threads, lambda: begun.append(1))
    assert set(threads) == {threading.get_ident()} and not begun


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_reaches_the_caller(n_threads: int) -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda x: 1 // x, [2, 1, 0, 3], n_threads, lambda: None)
