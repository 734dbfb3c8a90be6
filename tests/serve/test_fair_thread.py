"""Who has the next turn."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Coroutine

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.serve import fair_queue, fair_thread
from spacy_pel.serve.fair_thread import FairThread


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock in the place of the processor's: what is added to it is time spent."""
    spent: list[float] = []
    monkeypatch.setattr(fair_thread.time, "thread_time", lambda: sum(spent))
    return spent


def order_of(costs: list[float], turns: list[tuple[str, int, float]]) -> list[int]:
    """The order in which turns (client, size, cost) that wait together are taken."""
    taken: list[int] = []

    def work(number: int, cost: float) -> None:
        taken.append(number)
        costs.append(cost)

    async def ask() -> None:
        thread, first = FairThread("test"), threading.Event()
        held = asyncio.ensure_future(thread.run("another", 0, first.wait, 5))
        await asyncio.sleep(0)
        waiting = [
            asyncio.ensure_future(thread.run(client, size, work, number, cost))
            for number, (client, size, cost) in enumerate(turns)
        ]
        await asyncio.sleep(0)
        first.set()
        await asyncio.gather(held, *waiting)
        thread.close()

    asyncio.run(ask())
    return taken


def test_clients_take_turns_and_the_small_come_first(costs: list[float]) -> None:
    turns = [("a", 9, 1.0), ("a", 5, 1.0), ("a", 7, 1.0), ("b", 8, 1.0), ("b", 6, 1.0)]
    assert order_of(costs, turns) == [1, 4, 2, 3, 0]


def test_a_long_turn_is_followed_by_as_long_a_time_for_others(costs: list[float]) -> None:
    turns = [("long", 1, 3.0), ("long", 1, 3.0), *[("short", 2, 1.0)] * 5]
    assert order_of(costs, turns) == [0, 2, 3, 4, 1, 5, 6]


def test_short_turns_count_alike(costs: list[float]) -> None:
    turns = [("a", 1, 0.09), ("a", 2, 0.09), ("b", 3, 0.01), ("b", 4, 0.01), ("b", 5, 0.01)]
    assert order_of(costs, turns) == [0, 2, 1, 3, 4]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=12))
def test_no_client_that_waits_falls_back_by_more_than_a_turn(turns: list) -> None:
    """The independent measure: the time that each has had while all of them were waiting."""
    spent: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fair_thread.time, "thread_time", lambda: sum(spent))
        cost = random.Random(len(turns)).choice([1.0, 2.0])
        taken = order_of(spent, [(client, size, cost) for client, size in turns])
    had = {client: 0.0 for client, _ in turns}
    left = [client for client, _ in turns]
    for number in taken:
        client = turns[number][0]
        had[client] += cost
        left.remove(client)
        assert all(had[client] - had[other] <= cost for other in left)
    assert sorted(taken) == list(range(len(turns)))


def run(coroutine: Coroutine) -> object:
    return asyncio.run(coroutine)


def test_a_client_with_many_pieces_is_not_passed_over_between_them(costs: list[float]) -> None:
    """Its next piece counts as waiting, though it is asked for after the last one."""
    taken: list[str] = []

    def work(name: str, cost: float) -> None:
        taken.append(name)
        costs.append(cost)

    async def ask() -> None:
        thread = FairThread("test")

        async def in_pieces(name: str, cost: float, pieces: int) -> None:
            for _ in range(pieces):
                await thread.run(name, 0, work, name, cost)

        await asyncio.gather(in_pieces("long", 10.0, 3), in_pieces("short", 1.0, 8))
        thread.close()

    run(ask())
    assert taken == ["long", *["short"] * 8, "long", "long"]


def test_a_new_client_has_no_credit_for_the_time_before(costs: list[float]) -> None:
    taken: list[str] = []

    def work(name: str) -> None:
        taken.append(name)
        costs.append(1.0)

    async def ask() -> None:
        thread = FairThread("test")

        async def in_pieces(name: str, pieces: int) -> None:
            for _ in range(pieces):
                await thread.run(name, 0, work, name)

        async def later(name: str, pieces: int) -> None:
            while len(taken) < 10:
                await asyncio.sleep(0)
            await in_pieces(name, pieces)

        await asyncio.gather(in_pieces("a", 20), in_pieces("b", 20), later("new", 5))
        thread.close()

    run(ask())
    first, last = taken.index("new"), 44 - taken[::-1].index("new")
    assert taken[first : last + 1].count("new") == 5
    assert set(Counter(taken[first : last + 1]).values()) <= {4, 5}


def test_clients_that_have_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def one_after_the_other() -> int:
        thread = FairThread("test")
        for number in range(20):
            await thread.run(f"client {number}", 0, time.sleep, 0)
        thread.close()
        return len(thread._queue._had)

    async def while_it_is_never_idle() -> int:
        thread = FairThread("test")
        turns = [thread.run(f"client {number}", 0, time.sleep, 0) for number in range(50)]
        await asyncio.gather(*turns)
        thread.close()
        return len(thread._queue._had)

    assert run(one_after_the_other()) == 1
    monkeypatch.setattr(fair_queue, "_REMEMBERED", 5)
    assert run(while_it_is_never_idle()) <= 6


def test_an_error_is_the_callers_and_the_next_turn_follows() -> None:
    async def ask() -> object:
        thread = FairThread("test")
        with pytest.raises(ZeroDivisionError):
            await thread.run("a", 0, lambda: 1 / 0)
        answer = await thread.run("a", 0, lambda: 1)
        thread.close()
        return answer

    assert run(ask()) == 1


def test_what_is_cancelled_before_its_turn_is_never_called() -> None:
    called = []

    async def ask() -> None:
        thread, first = FairThread("test"), threading.Event()
        held = asyncio.ensure_future(thread.run("a", 0, first.wait, 5))
        turn = asyncio.ensure_future(thread.run("b", 0, called.append, 1))
        await asyncio.sleep(0.01)
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        first.set()
        await held
        await thread.run("b", 0, called.append, 2)
        thread.close()

    run(ask())
    assert called == [2]


def joined(together: float, turns: list[tuple[str, float, int]]) -> list[list[int]]:
    """The items that are done together, of turns (client, weight, item) that wait."""
    calls: list[list[int]] = []

    def work(items: list[int]) -> list[int | Exception]:
        calls.append(items)
        return [ValueError(item) if item < 0 else item * 10 for item in items]

    async def ask() -> list:
        thread = FairThread("test", together)
        waiting = [
            thread.run_together(client, 0, weight, work, item) for client, weight, item in turns
        ]
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        thread.close()
        return answers

    for (_, _, item), answer in zip(turns, run(ask())):
        if item < 0:
            assert isinstance(answer, ValueError) and answer.args == (item,)
        else:
            assert answer == item * 10
    return calls


def test_turns_are_done_together_up_to_a_weight(costs: list[float]) -> None:
    turns = [("a", 2, 1), ("b", 2, 2), ("c", 2, 3), ("d", 9, 4), ("e", 1, 5)]
    assert joined(4, turns) == [[1, 2], [3], [4], [5]]
    assert joined(0, turns) == [[1], [2], [3], [4], [5]]


def test_a_client_with_many_turns_does_not_fill_a_batch_alone(costs: list[float]) -> None:
    turns = [*[("many", 1, n) for n in range(6)], ("one", 1, 6), ("two", 1, 7)]
    assert joined(4, turns)[0] == [0, 6, 7, 1]


def test_each_of_a_batch_has_its_own_error() -> None:
    assert joined(9, [("a", 1, 1), ("b", 1, -2), ("c", 1, 3)]) == [[1, -2, 3]]


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 6), st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), max_size=12)
)
def test_all_turns_are_done_once_and_no_batch_is_too_heavy(together: int, turns: list) -> None:
    weights = [weight for _, weight in turns]
    calls = joined(together, [(client, w, n) for n, (client, w) in enumerate(turns)])
    assert sorted(n for call in calls for n in call) == list(range(len(turns)))
    assert all(len(call) == 1 or sum(weights[n] for n in call) <= together for call in calls)


def test_other_functions_are_not_joined() -> None:
    calls: list[tuple[str, list[int]]] = []

    async def ask() -> None:
        thread = FairThread("test", 9)

        def one(items: list[int]) -> list[int]:
            calls.append(("one", items))
            return items

        def other(items: list[int]) -> list[int]:
            calls.append(("other", items))
            return items

        await asyncio.gather(
            *(thread.run_together("a", 0, 1, f, n) for n, f in enumerate([one, one, other, one]))
        )
        thread.close()

    run(ask())
    assert calls == [("one", [0, 1]), ("other", [2]), ("one", [3])]
