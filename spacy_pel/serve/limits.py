"""The limits of a server on each request and on the requests in flight."""

import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from starlette.exceptions import HTTPException


class Limits(NamedTuple):
    """The limits of one process."""

    body: int = 1_048_576  # bytes
    documents: int = 64
    characters: int = 20_000  # of a document's text
    seconds: float = 30.0  # from the first bytes of a request to its response
    per_client: int = 16  # requests of one client in flight
    mentions: int = 500  # given in a document
    in_flight: int = 128  # requests of all clients


class InFlight:
    """The number of requests in flight of each client."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.counts: Counter[str] = Counter()

    @contextmanager
    def admit(self, client: str) -> Iterator[None]:
        """Count a request within the block.

        Raises:
            HTTPException: The client (429) or all clients (503) have too many requests in flight.
        """
        retry, later = "try again in a few seconds", {"retry-after": "2"}
        if self.counts[client] >= self._limits.per_client:
            raise HTTPException(429, f"you have too many requests in flight; {retry}", later)
        if self.counts.total() >= self._limits.in_flight:
            raise HTTPException(503, f"the server is busy; {retry}", later)
        self.counts[client] += 1
        try:
            yield
        finally:
            self.counts[client] -= 1
            self.counts += Counter()  # removes clients without requests


def client_at(peer: tuple[str, int | None] | None) -> str:
    """Return the name of the client at (host, port): its host, or the /64 network of an IPv6 host."""
    host = peer[0] if peer else ""
    return str(ipaddress.ip_network(f"{host}/64", strict=False)) if ":" in host else host
