"""The socket that a server listens at. It imports nothing heavy: its address is told at once."""

from __future__ import annotations

import ipaddress
import socket

from ..errors import PelError


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens for connections.

    Args:
        host: The address to listen at.
        port: The port; 0 takes any that is free.

    Raises:
        PelError: The address is not one of this computer, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
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
