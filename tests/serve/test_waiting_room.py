"""Who has to go if there are too many requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.serve.refused import Refused
from spacy_pel.serve.waiting_room import WaitingRoom

from .conftest import LIMITS


async def never() -> None:
    await asyncio.Event().wait()


async def entered(room: WaitingRoom, clients: str) -> list[asyncio.Task]:
    """One request for each letter, of the client with this name."""
    tasks = []
    for client in clients:
        tasks.append(asyncio.ensure_future(room.answer(client, never())))
        for _ in range(10):  # turns, not seconds: on a busy computer one turn may take long
            await asyncio.sleep(0)
    return tasks


def status_of(task: asyncio.Task) -> int | None:
    return task.exception().status if task.done() else None


async def end(tasks: list[asyncio.Task]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("clients", "left"),
    [
        ("aaab", "aab"),  # b takes the place of the newest of a
        ("aaa", "aaa"),
        ("aaaa", "aaa"),  # a has none but its own
        ("abcd", "abc"),  # all have one
        ("aabb", "aab"),  # b would have as many as a had
        ("aaabc", "abc"),
    ],
)
def test_who_has_the_most_goes_first(clients: str, left: str) -> None:
    async def ask() -> tuple[str, set]:
        room = WaitingRoom(replace(LIMITS, waiting=3))
        tasks = await entered(room, clients)
        statuses = [status_of(task) for task in tasks]
        await end(tasks)
        assert room.under_way == 0
        staying = "".join(c for c, status in zip(clients, statuses) if status is None)
        return staying, set(statuses) - {None}

    staying, refused = asyncio.run(ask())
    assert staying == left and refused <= {503}


@settings(max_examples=50, deadline=None)
@given(st.text("abcde", max_size=15), st.integers(1, 6))
def test_who_loses_a_request_has_at_most_one_less_than_any_other(clients: str, places: int) -> None:
    async def ask() -> Counter:
        room = WaitingRoom(replace(LIMITS, waiting=places))
        tasks = await entered(room, clients)
        staying = Counter(c for c, task in zip(clients, tasks) if not task.done())
        assert room.under_way == sum(staying.values()) == min(places, len(clients))
        await end(tasks)
        return staying

    staying = asyncio.run(ask())
    for client, asked in Counter(clients).items():
        if staying[client] < asked:
            assert max(staying.values()) - staying[client] <= 1


def test_the_time_is_up() -> None:
    async def ask() -> None:
        await WaitingRoom(replace(LIMITS, seconds=0.05)).answer("a", never())

    with pytest.raises(Refused, match=r"no answer within 0\.05 seconds"):
        asyncio.run(ask())


def test_an_error_is_passed_on_and_leaves_the_room() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def ask() -> int:
        room = WaitingRoom(LIMITS)
        with pytest.raises(ZeroDivisionError):
            await room.answer("a", fail())
        return room.under_way

    assert asyncio.run(ask()) == 0
