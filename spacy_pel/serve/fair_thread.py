"""A thread that clients use in turns, each as long as the others."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar

from .fair_queue import FairQueue

T = TypeVar("T")

# A turn counts as at least so long, so that clients with short turns come one after the other. If each
# counted as long as it is, a client would wait for all others to have as many seconds, after a request
# that took three times as long as theirs.
LEAST_SECONDS = 0.1


class FairThread:
    """One thread, for the coroutines of one event loop. ``FairQueue`` says who has the next turn.

    Turns that wait may be done together: a model needs less time for ten short texts at once than
    for one after the other.

    Args:
        name: The name of the thread.
        together: The largest sum of the weights of turns that are done together.
    """

    def __init__(self, name: str, together: float = 0) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._queue: FairQueue[_Turn] = FairQueue()
        self._together = together
        self._is_busy = False
        self._is_closed = False

    async def run(self, client: str, size: int, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the thread when it is the client's turn.

        Args:
            client: The name of the client.
            size: How large the work is, in any unit.
            function: What is called.
            *arguments: Its arguments.

        Returns:
            What the function returns. If the caller is cancelled before the turn begins, the
            function is not called.
        """
        call = partial(function, *arguments)
        return await self.run_together(client, size, math.inf, _called, call)

    async def run_together(
        self,
        client: str,
        size: int,
        weight: float,
        function: Callable[[list[Any]], Sequence[Any]],
        item: Any,
    ) -> Any:
        """Call a function with a list of items: this one, and those of turns that come next.

        Args:
            client: The name of the client.
            size: How large the work is, of which this may be a part.
            weight: What the item adds to the sum of the weights, above 0.
            function: Gives a result for each item, or the error of that item. Only items for the
                same function are joined.
            item: The item.

        Returns:
            The result of the item. If the caller is cancelled before, the item is left out.
        """
        if not self._is_busy and not self._queue:
            self._queue.restart()
        turn = _Turn(weight, function, item, asyncio.get_running_loop().create_future())
        self._queue.add(client, size, turn)
        asyncio.get_running_loop().call_soon(self._begin_next)  # what is asked for now may join it
        return await turn.answer

    def close(self) -> None:
        """Wait for the work under way. What waits for its turn is cancelled."""
        self._is_closed = True
        self._thread.shutdown()

    def _begin_next(self) -> None:
        """Begin the next turns, unless some are under way."""
        if self._is_closed:
            for turn in self._queue.clear():
                turn.answer.cancel()
        if self._is_busy or not (turns := self._next_turns()):
            return
        self._is_busy = True
        function, items = turns[0][1].function, [turn.item for _, turn in turns]
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, _timed, function, items)
        work.add_done_callback(partial(self._end, turns))

    def _next_turns(self) -> list[tuple[str, _Turn]]:
        """Take the turns that come next and are done together, with their clients."""
        taken: list[tuple[str, _Turn]] = []
        room = self._together
        while (turn := self._queue.first()) is not None:
            if turn.answer.cancelled():
                self._queue.take()
                continue
            if taken and (turn.weight > room or turn.function != taken[0][1].function):
                break
            taken.append(self._queue.take())
            self._queue.charge(taken[-1][0], LEAST_SECONDS)
            room -= turn.weight
        return taken

    def _end(self, turns: list[tuple[str, _Turn]], work: asyncio.Future) -> None:
        """Note the time of turns, give their answers, and begin the next."""
        seconds, results = work.result()
        weights = sum(turn.weight for _, turn in turns)
        for (client, turn), result in zip(turns, results):
            share = seconds * turn.weight / weights if len(turns) > 1 else seconds
            self._queue.charge(client, max(share - LEAST_SECONDS, 0))
            if turn.answer.cancelled():
                continue
            if isinstance(result, Exception):
                turn.answer.set_exception(result)
            else:
                turn.answer.set_result(result)
        self._is_busy = False
        # The client that has the answer may ask for a turn again before the next one begins.
        asyncio.get_running_loop().call_soon(self._begin_next)


class _Turn(NamedTuple):
    """An item that waits to be given to its function."""

    weight: float
    function: Callable[[list[Any]], Sequence[Any]]
    item: Any
    answer: asyncio.Future


def _called(calls: list[Callable[[], T]]) -> list[T]:
    return [call() for call in calls]


def _timed(
    function: Callable[[list[Any]], Sequence[Any]], items: list[Any]
) -> tuple[float, Sequence[Any]]:
    """The seconds that the thread has computed, and a result or an error for each item."""
    began = time.thread_time()
    try:
        results = function(items)
    except Exception as error:
        results = [error] * len(items)
    return time.thread_time() - began, results
