"""The web server, from its start until it is told to end."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial

import uvicorn
from fastapi import FastAPI

from .connections import Connection
from .limits import Limits


def run_server(app: FastAPI, listener: socket.socket, limits: Limits) -> None:
    """Serve an application until Ctrl-C or SIGTERM; requests under way are answered first.

    Args:
        app: The application, see ``app.create_app``.
        listener: The socket, see ``listener.listen``.
        limits: The limits on requests.
    """
    config = uvicorn.Config(
        app,
        http=partial(Connection, seconds=limits.seconds),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    # After an orderly end the server sends itself the signal a second time.
    with suppress(KeyboardInterrupt, SystemExit):
        uvicorn.Server(config).run(sockets=[listener])
