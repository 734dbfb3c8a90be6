import multiprocessing
import os
import time
from collections.abc import Iterator

import pytest

from spacy_pel.batch.workers import local_results
from spacy_pel.errors import PelError


def square(number: int) -> tuple[int, int]:
    """It takes the longer, the smaller the number is."""
    time.sleep(0.1 / (1 + number))
    return number**2, os.getpid()


@pytest.mark.parametrize("n", [1, 3])
def test_results_come_in_order_from_each_process(n: int) -> None:
    found = list(local_results(square, range(10), n))
    assert [n for n, _ in found] == [n**2 for n in range(10)]
    assert len({process for _, process in found}) == n


def test_items_are_read_as_they_are_needed() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1_000):
            read.append(number)
            yield number

    results = local_results(square, items(), 2)
    next(results)
    assert len(read) <= 5
    results.close()
    assert multiprocessing.active_children() == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "error, problem",
    [
        (PelError("the KB has gone", "build it"), "the KB has gone; build it"),
        (RuntimeError("odd"), "odd"),
        (None, "ended unexpectedly.*run it again with fewer processes"),  # it is killed
    ],
)
def test_an_error_of_a_worker_is_raised_and_ends_all(error: Exception, problem: str) -> None:
    def fail(number: int) -> int:
        if number == 3 and error is None:
            os.kill(os.getpid(), 9)
        if number == 3:
            raise error
        return number

    with pytest.raises(type(error) if error else PelError, match=problem):
        list(local_results(fail, range(100), 2))
    assert multiprocessing.active_children() == []


@pytest.mark.timeout(60)
def test_workers_end_at_once_with_a_parent_that_is_interrupted_or_killed() -> None:
    read, write = os.pipe()

    def work(number: int) -> None:
        os.write(write, b".")
        time.sleep(1_000)

    fork = multiprocessing.get_context("fork")
    parent = fork.Process(target=lambda: list(local_results(work, range(4), 2)))
    parent.start()
    os.close(write)
    with os.fdopen(read, "rb", buffering=0) as stream:
        assert stream.read(1) == b"."
        parent.kill()
        while stream.read(1):  # up to the end, when no process has it open any more
            pass
    parent.join()

    with pytest.raises(KeyboardInterrupt):
        for _ in local_results(square, range(100), 2):
            raise KeyboardInterrupt
    assert multiprocessing.active_children() == []
