"""The web server: the socket that it listens at, and its run until it is told to end."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from ..errors import PelError

# The number of connections held at once; further ones are answered 503.
CONNECTIONS = 500


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


def run_server(app: FastAPI, listener: socket.socket, *, seconds: float) -> None:
    """Serve an application until Ctrl-C or SIGTERM; requests under way are answered first.

    Args:
        app: The application, see ``app.create_app``.
        listener: The socket, see ``listen``.
        seconds: The longest time that a request may take.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=int(seconds) + 1,
    )
    # After an orderly end the server sends itself the signal a second time.
    with suppress(KeyboardInterrupt, SystemExit):
        uvicorn.Server(config).run(sockets=[listener])
