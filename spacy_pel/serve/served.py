"""Where a server listens, and its limits. It imports nothing heavy: the address is told at once."""

import ipaddress
import socket
from typing import NamedTuple

from ..errors import PelError


class Limits(NamedTuple):
    """The most that a request may ask for, and the most requests at once, of each process."""

    body: int = 1_048_576  # bytes
    documents: int = 64
    characters: int = 20_000  # of a document's text
    mentions: int = 500  # that are given for a document
    seconds: float = 30.0  # in which the body must arrive, and then the time for the answer
    waiting: int = 128  # requests under way, including those that wait for the model


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens for connections; port 0 takes any that is free.

    PelError if the address is not one of this computer, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise PelError(
            f"cannot listen at {host}, port {port}: {error.strerror or error}",
            "give another --host or --port",
        ) from error


def is_local(listener: socket.socket) -> bool:
    """Whether only this computer can reach the socket."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def address(listener: socket.socket) -> str:
    """The URL at which the socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
