"""Which client has the next turn: each is to have as much time as the others."""

from __future__ import annotations

import itertools
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

# The number of clients whose times are kept while turns never cease to wait.
_REMEMBERED = 1000


class FairQueue(Generic[T]):
    """Turns that wait, by client.

    The next turn is that of the client that has had the shortest time since the queue was restarted.
    Of the turns of one client, and of clients with the same time, the smallest comes first. A client
    that comes anew begins at the time of the one that had the last turn: it has no credit.
    (Start-time fair queueing: Goyal, Vin and Cheng 1996.)
    """

    def __init__(self) -> None:
        self._turns: dict[str, list[_Waiting[T]]] = {}  # those that wait: a heap for each client
        self._had: dict[str, float] = {}  # seconds, by client
        self._now = 0.0  # the seconds of the client that had the last turn
        self._number = itertools.count()

    def __bool__(self) -> bool:
        """Whether a turn waits."""
        return bool(self._turns)

    def restart(self) -> None:
        """Forget what clients have had, as nobody has to wait for anybody."""
        self._had.clear()
        self._now = 0.0

    def add(self, client: str, size: int, turn: T) -> None:
        """Let a turn wait.

        Args:
            client: The name of its client.
            size: How large the work is, in any unit.
            turn: What waits.
        """
        if client not in self._turns:
            self._turns[client] = []
            self._had[client] = max(self._had.get(client, 0.0), self._now)
        heappush(self._turns[client], _Waiting(size, next(self._number), turn))

    def first(self) -> T | None:
        """The next turn, which goes on waiting; None if none waits."""
        return self._turns[self._next_client()][0].turn if self._turns else None

    def take(self) -> tuple[str, T]:
        """The next turn, with its client."""
        client = self._next_client()
        turn = heappop(self._turns[client]).turn
        if not self._turns[client]:
            del self._turns[client]
        self._now = self._had[client]
        return client, turn

    def charge(self, client: str, seconds: float) -> None:
        """Note that a client has had so many seconds."""
        self._had[client] = self._had.get(client, self._now) + seconds
        if len(self._had) > _REMEMBERED:
            self._had = {one: self._had[one] for one in self._turns}

    def clear(self) -> list[T]:
        """Take all turns at once; nobody is charged."""
        turns = [waiting.turn for heap in self._turns.values() for waiting in heap]
        self._turns.clear()
        return turns

    def _next_client(self) -> str:
        return min(self._turns, key=lambda one: (self._had[one], self._turns[one][0][:2]))


class _Waiting(NamedTuple, Generic[T]):
    """A turn; the number keeps the order of turns of one size."""

    size: int
    number: int
    turn: T
