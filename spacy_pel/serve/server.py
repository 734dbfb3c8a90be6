"""The web server, from its start until it is told to end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..system.printable import printable
from .connections import Connection
from .limits import Limits

# Errors alone, on stderr. A client must not fill the log, as with uvicorn's warning of each request
# that is not HTTP.
_LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"printable": {"()": "spacy_pel.serve.server.PrintableFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "printable"}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
}


class PrintableFormatter(logging.Formatter):
    """Writes errors, which may quote a request, without what could control a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, with its traceback."""
        return printable(super().format(record))


def server_config(
    app: FastAPI | Callable[[], FastAPI], limits: Limits, **more: Any
) -> uvicorn.Config:
    """uvicorn's settings for an application.

    Args:
        app: The application.
        limits: The limits on requests.
        **more: Further settings of uvicorn.
    """
    return uvicorn.Config(
        app,
        http=partial(Connection, seconds=limits.seconds),
        log_level="error",
        log_config=_LOG,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=int(limits.seconds) + 1,
        **more,
    )


def run_server(app: FastAPI, listener: socket.socket, limits: Limits) -> None:
    """Serve an application until Ctrl-C or SIGTERM; requests under way are answered first.

    Args:
        app: The application, see ``app.create_app``.
        listener: The socket, see ``listener.listen``.
        limits: The limits on requests.
    """
    config = server_config(app, limits)
    # After an orderly end the server sends itself the signal a second time.
    with suppress(KeyboardInterrupt, SystemExit):
        uvicorn.Server(config).run(sockets=[listener])
