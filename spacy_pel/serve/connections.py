"""HTTP connections that end if their client is too slow, and that make room for new clients.

uvicorn ends a connection that is idle after an answer. It waits forever for a first request, for the
rest of a request, and for a client that does not read its answer. When all connections are taken it
refuses new ones. So a few hundred idle connections would lock all other clients out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .clients import client_at

# The number of connections held at once. For a further one, one that is idle is closed.
CONNECTIONS = 500
# The time for the first line and the headers of a request, in seconds.
HEADERS_SECONDS = 10.0
# The time beyond the limit on a request that leaves it to the application to answer, in seconds.
_GRACE = 5.0


class Connection(H11Protocol):
    """One connection of uvicorn, with limits on the time that its client takes.

    Args:
        seconds: The time for a request's body to arrive, and for the answer to be read.
    """

    def __init__(self, *args: Any, seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What the client may let the server wait for, by the state of the client's part in HTTP.
        self._patience = {h11.IDLE: HEADERS_SECONDS, h11.SEND_BODY: seconds + _GRACE}
        self._reading_patience = seconds
        self._waits_for: Any = None
        self._arrival: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self.client_name = ""
        self.waits_since = 0.0
        self.is_dropped = False

    @property
    def owes_answer(self) -> bool:
        """Whether a request has arrived as a whole, and its answer has not been given."""
        return (
            self.cycle is not None
            and not self.cycle.response_complete
            and self.conn.their_state is not h11.SEND_BODY
        )

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a new connection, if need be in the place of another."""
        super().connection_made(transport)
        self.client_name = client_at(self.client)
        self.waits_since = self.loop.time()
        self._wait_for_client()
        make_room(self.connections, CONNECTIONS)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request. It gives no more time for the rest of that part."""
        super().data_received(data)
        self._wait_for_client()

    def on_response_complete(self) -> None:
        """Note that an answer is given. uvicorn then waits for a next request."""
        self.waits_since = self.loop.time()
        self._stop_waiting()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client time to read what fills the buffer."""
        super().pause_writing()
        self._reading = self.loop.call_later(self._reading_patience, self.drop)

    def resume_writing(self) -> None:
        """Note that the client has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def drop(self) -> None:
        """End the connection without a word."""
        self.is_dropped = True
        self.transport.abort()

    def _wait_for_client(self) -> None:
        """Set the time for what the client has to send next, once for each part of a request."""
        state = self.conn.their_state
        if state is self._waits_for:
            return
        self._stop_waiting()
        if state in self._patience:
            self._waits_for = state
            self._arrival = self.loop.call_later(self._patience[state], self.drop)

    def _stop_waiting(self) -> None:
        self._waits_for = None
        if self._arrival is not None:
            self._arrival.cancel()


def make_room(connections: set[Connection], most: int) -> None:
    """Drop a connection that no answer is owed to, if there are more than ``most``.

    It is one of the client that has the most connections: the one that has waited the longest.
    """
    held = [connection for connection in connections if not connection.is_dropped]
    if len(held) <= most:
        return
    counts = Counter(connection.client_name for connection in held)
    idle = (connection for connection in held if not connection.owes_answer)
    min(idle, key=lambda one: (-counts[one.client_name], one.waits_since)).drop()
