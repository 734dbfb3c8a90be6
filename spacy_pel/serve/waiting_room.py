"""The requests under way: how many there may be, how long, and who has to go if it is too many."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from .limits import Limits
from .refused import Refused

T = TypeVar("T")


class WaitingRoom:
    """Requests under way, by client.

    If there are too many, the newest request of the client that has the most is refused. So one
    client cannot keep the others out, however many requests it sends.

    Args:
        limits: Of them, ``waiting`` and ``seconds`` count here.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests: dict[str, list[asyncio.Task]] = {}

    @property
    def under_way(self) -> int:
        """The number of requests."""
        return sum(map(len, self._requests.values()))

    def check_room(self, client: str) -> None:
        """Raise Refused if a request of the client would be refused now."""
        if self.under_way < self._limits.waiting:
            return
        most = max(map(len, self._requests.values()), default=0)
        if len(self._requests.get(client, ())) + 1 >= most:
            raise _busy()

    async def answer(self, client: str, request: Coroutine[Any, Any, T]) -> T:
        """Await the answer to a request of a client.

        Raises:
            Refused: There are too many requests, or the time is up.
        """
        task = asyncio.ensure_future(request)
        try:
            self.check_room(client)
            if self.under_way >= self._limits.waiting:
                max(self._requests.values(), key=len)[-1].cancel()
            self._requests.setdefault(client, []).append(task)
            await asyncio.wait({task}, timeout=self._limits.seconds)
            return self._answer_of(task)
        finally:
            task.cancel()
            self._forget(client, task)

    def _answer_of(self, task: asyncio.Task[T]) -> T:
        if not task.done():
            raise Refused(504, f"no answer within {self._limits.seconds:g} seconds")
        if task.cancelled():
            raise _busy()
        return task.result()

    def _forget(self, client: str, task: asyncio.Task) -> None:
        others = [other for other in self._requests.get(client, ()) if other is not task]
        if others:
            self._requests[client] = others
        else:
            self._requests.pop(client, None)


def _busy() -> Refused:
    return Refused(503, "the server is busy; try again in a few seconds")
