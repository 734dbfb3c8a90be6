"""Who has the next turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.serve import turns as turns_module
from spacy_pel.serve.turns import LEAST, FairThread


def taken(turns: Sequence[tuple[str, int]], together: int = 0) -> tuple[list[list[int]], list]:
    """Turns (client, size) that wait for one thread: their numbers as they are called, and the answers.

    An even number is answered with ten times it, an odd one with an error.
    """
    calls: list[list[int]] = []
    begun, go = threading.Event(), threading.Event()

    def work(items: list[int]) -> list[int | Exception]:
        if items == [-1]:
            begun.set()
            go.wait(5)
            return [0]
        calls.append(items)
        return [ValueError(item) if item % 2 else 10 * item for item in items]

    async def ask() -> list:
        thread = FairThread("test", work, together)
        held = asyncio.ensure_future(thread.run("another", 0, -1))
        await asyncio.to_thread(begun.wait, 5)
        waiting = [
            asyncio.ensure_future(thread.run(client, size, number))
            for number, (client, size) in enumerate(turns)
        ]
        await asyncio.sleep(0)
        go.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        await held
        thread.close()
        return answers

    return calls, asyncio.run(ask())


def test_a_client_with_large_turns_waits_while_others_have_as_much() -> None:
    turns = [("large", 4 * LEAST), ("large", 4 * LEAST), *[("small", 5)] * 6]
    assert sum(taken(turns)[0], []) == [0, 2, 3, 4, 5, 1, 6, 7]


def test_a_client_with_many_turns_does_not_fill_a_batch_alone() -> None:
    turns = [*[("many", 1)] * 6, ("one", 1), ("two", 1)]
    assert taken(turns, 4)[0][0] == [0, 6, 7, 1]


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 9000),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9000)), max_size=12),
)
def test_no_client_that_waits_falls_back_by_more_than_a_turn(together: int, turns: list) -> None:
    """The independent measure: what each has had while all of them were waiting."""
    calls, answers = taken(turns, together)
    order = [number for call in calls for number in call]
    assert sorted(order) == list(range(len(turns)))
    for number, answer in enumerate(answers):
        is_error = isinstance(answer, ValueError) and answer.args == (number,)
        assert is_error if number % 2 else answer == 10 * number
    for call in calls:
        assert len(call) == 1 or sum(turns[number][1] for number in call) <= together
    had = dict.fromkeys("abc", 0)
    left = [client for client, _ in turns]
    for number in order:
        client, size = turns[number]
        had[client] += max(size, LEAST)
        left.remove(client)
        assert all(had[client] - had[other] <= 9000 for other in left)


def test_a_new_client_has_no_credit_and_those_that_have_gone_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns_module, "_REMEMBERED", 5)
    calls: list[str] = []

    def work(items: list[str]) -> list[None]:
        calls.extend(items)
        return [None] * len(items)

    async def ask() -> int:
        thread = FairThread("test", work)

        async def in_turns(name: str, turns: int) -> None:
            for _ in range(turns):
                await thread.run(name, 0, name)

        async def later() -> int:
            while len(calls) < 20:
                await asyncio.sleep(0)
            await asyncio.gather(*(in_turns(f"new {n}", 5) for n in range(10)))
            return len(thread._end)

        remembered, *_ = await asyncio.gather(later(), in_turns("a", 40), in_turns("b", 40))
        thread.close()
        return remembered + len(thread._end)

    assert asyncio.run(ask()) <= 14
    first = calls.index("new 0")
    others = calls[first : first + 48]
    assert 3 <= others.count("a") <= 5 and 3 <= others.count("new 0") <= 5


def test_what_is_cancelled_before_its_turn_is_never_called() -> None:
    calls: list[int] = []

    async def ask() -> None:
        thread = FairThread("test", lambda items: calls.extend(items) or items)
        turn = asyncio.ensure_future(thread.run("a", 0, 1))
        await asyncio.sleep(0)
        turn.cancel()
        await thread.run("b", 0, 2)
        thread.close()

    asyncio.run(ask())
    assert calls == [2]
