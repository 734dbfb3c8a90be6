"""A thread that clients use in turns, each as long as the others."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

# A turn counts as at least so long. If each counted as long as it is, a client would wait for all others
# to have as many seconds, after a request that took three times as long as theirs.
LEAST_SECONDS = 0.1
# The number of clients whose times are kept while the thread is never idle.
_REMEMBERED = 1000


class FairThread:
    """One thread, for the coroutines of one event loop.

    The next turn goes to the client for which the thread has worked the shortest time since it was
    idle. Short turns count alike, so clients with short turns come one after the other. Of the turns of one client, and of clients with the same time, the smallest comes first. A
    client that comes anew begins at the time of the one that is served: it has no credit.
    (Start-time fair queueing: Goyal, Vin and Cheng 1996.)

    Args:
        name: The name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._turns: dict[str, list[_Turn]] = {}  # those that wait: a heap for each client
        self._worked: dict[str, float] = {}  # seconds, by client
        self._now = 0.0  # the seconds of the client that had the last turn
        self._number = itertools.count()
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
        loop = asyncio.get_running_loop()
        work = partial(function, *arguments)
        turn = _Turn(size, next(self._number), work, loop.create_future())
        if not self._is_busy and not self._turns:  # nobody has waited for anybody
            self._worked.clear()
            self._now = 0.0
        if client not in self._turns:
            self._turns[client] = []
            self._worked[client] = max(self._worked.get(client, 0.0), self._now)
        heappush(self._turns[client], turn)
        self._begin_next()
        return await turn.answer

    def close(self) -> None:
        """Wait for the work under way. What waits for its turn is cancelled."""
        self._is_closed = True
        self._thread.shutdown()

    def _begin_next(self) -> None:
        """Begin the next turn, unless one is under way."""
        if self._is_closed:
            self._cancel_all()
        if self._is_busy or (found := self._next_turn()) is None:
            return
        client, turn = found
        self._is_busy = True
        work = asyncio.get_running_loop().run_in_executor(self._thread, _timed, turn.work)
        work.add_done_callback(partial(self._end, client, turn))

    def _cancel_all(self) -> None:
        for turn in itertools.chain.from_iterable(self._turns.values()):
            turn.answer.cancel()
        self._turns.clear()

    def _next_turn(self) -> tuple[str, _Turn] | None:
        """Take the turn that comes next, with its client; None if none waits."""
        while self._turns:
            client = min(self._turns, key=lambda one: (self._worked[one], self._turns[one][0]))
            turn = heappop(self._turns[client])
            if not self._turns[client]:
                del self._turns[client]
            if not turn.answer.cancelled():
                self._now = self._worked[client]
                return client, turn
        return None

    def _end(self, client: str, turn: _Turn, work: asyncio.Future) -> None:
        """Note the time of a turn, give its answer, and begin the next."""
        done = work.result()
        self._worked[client] += max(done.seconds, LEAST_SECONDS)
        if len(self._worked) > _REMEMBERED:
            self._worked = {one: self._worked[one] for one in self._turns}
        self._is_busy = False
        if not turn.answer.cancelled():
            if done.error is None:
                turn.answer.set_result(done.value)
            else:
                turn.answer.set_exception(done.error)
        # The client that has the answer may ask for a turn again before the next one begins.
        asyncio.get_running_loop().call_soon(self._begin_next)


class _Turn(NamedTuple):
    """What waits to be called; the number keeps the order of turns of one size."""

    size: int
    number: int
    work: Callable[[], Any]
    answer: asyncio.Future


class _Done(NamedTuple):
    """What a turn has given or raised, and the seconds that its thread has computed for it."""

    seconds: float
    value: Any = None
    error: Exception | None = None


def _timed(work: Callable[[], Any]) -> _Done:
    began = time.thread_time()
    try:
        value = work()
    except Exception as error:
        return _Done(time.thread_time() - began, error=error)
    return _Done(time.thread_time() - began, value)
