"""A thread that clients use in turns."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush
from typing import Any

# A smaller turn counts as one of this size, so that clients with small turns come one after the other.
LEAST = 2000
# The number of clients that are remembered while turns never cease to wait.
_REMEMBERED = 1000


class FairThread:
    """One thread, for the coroutines of an event loop. Clients that wait get equal shares of it.

    Each turn begins, on a clock that counts characters, where the client's last turn ends, or now if the
    client comes anew. The turn with the earliest beginning comes next (start-time fair queueing: Goyal,
    Vin and Cheng 1996). So a client with large turns has few of them, and one with many waits for itself.

    Args:
        name: The name of the thread.
        function: What is called with a list of items. It gives a result for each, or its error.
        together: The largest sum of the sizes of turns that are done together, as one list.
    """

    def __init__(
        self, name: str, function: Callable[[list[Any]], Sequence[Any]], together: int = 0
    ) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._function = function
        self._together = together
        self._waiting: list[tuple[int, int, int, Any, asyncio.Future]] = []  # a heap
        self._number = itertools.count()
        self._now = 0
        self._end: dict[str, int] = {}  # of each client's last turn
        self._is_busy = False

    async def run(self, client: str, size: int, item: Any) -> Any:
        """Give the function's result for an item, when it is the client's turn.

        Args:
            client: The name of the client.
            size: How large the work is, in characters.
            item: The item. If the caller is cancelled before its turn, it is left out.
        """
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        begin = max(self._now, self._end.get(client, 0))
        self._end[client] = begin + max(size, LEAST)
        heappush(self._waiting, (begin, next(self._number), size, item, answer))
        if not self._is_busy:
            self._is_busy = True
            loop.create_task(self._take_turns())
        return await answer

    def close(self) -> None:
        """Wait for the work under way."""
        self._thread.shutdown(cancel_futures=True)

    async def _take_turns(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # what is asked for now may join
        while turns := self._next_turns():
            items = [item for item, _ in turns]
            try:
                results = await loop.run_in_executor(self._thread, self._function, items)
            except Exception as error:
                results = [error] * len(turns)
            for (_, answer), result in zip(turns, results):
                if answer.cancelled():
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
            await asyncio.sleep(0)  # whoever has an answer may ask for a next turn
        self._is_busy = False
        self._end.clear()
        self._now = 0

    def _next_turns(self) -> list[tuple[Any, asyncio.Future]]:
        """Take the turns that are done next, with their answers."""
        turns: list[tuple[Any, asyncio.Future]] = []
        room = self._together
        while self._waiting and (not turns or self._waiting[0][2] <= room):
            self._now, _, size, item, answer = heappop(self._waiting)
            if not answer.cancelled():
                turns.append((item, answer))
                room -= size
        if len(self._end) > _REMEMBERED:
            self._end = {client: end for client, end in self._end.items() if end > self._now}
        return turns
