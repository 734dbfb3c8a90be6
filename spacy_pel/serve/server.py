"""The web server: uvicorn, from its start until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from spacy.language import Language
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from ..system.printable import printable
from .app import create_app
from .served import Limits, Served
from .service import LinkingService, client_at

# The number of connections that a client may hold. It is more than a browser or a proxy needs.
CONNECTIONS_OF_CLIENT = 200
# The time for the first line and the headers of a request, in seconds.
HEADERS_SECONDS = 10.0
# The time beyond the limit on a request that leaves it to the application to answer, in seconds.
_GRACE = 5.0
# Seconds in which a process must show that it lives, even while it loads the pipeline.
_SIGN_OF_LIFE = 60
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


class Connection(H11Protocol):
    """One connection of uvicorn, with what uvicorn lacks: an end to waiting for a slow client.

    uvicorn ends a connection that is idle after an answer. It waits forever for a first request, and
    for the rest of a request. Its ``limit_concurrency`` counts idle connections, so that one client
    could keep out all others.

    Args:
        seconds: The time for a request's body to arrive.
    """

    def __init__(self, *args: Any, seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seconds = seconds
        self._awaited: Any = None
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a new connection, unless the client has too many."""
        super().connection_made(transport)
        mine = client_at(self.client)
        if (
            sum(client_at(other.client) == mine for other in self.connections)
            > CONNECTIONS_OF_CLIENT
        ):
            transport.abort()
        else:
            self._wait_for_client()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request. It gives no more time for the rest of that part."""
        super().data_received(data)
        self._wait_for_client()

    def on_response_complete(self) -> None:
        """Note that an answer is given. The client has to send a next request."""
        self._awaited = None
        super().on_response_complete()
        self._wait_for_client()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)

    def _wait_for_client(self) -> None:
        """Set the time for what the client has to send next, once for each part of a request."""
        state = self.conn.their_state
        if state is self._awaited:
            return
        if self._end is not None:
            self._end.cancel()
        self._awaited, self._end = state, None
        seconds = {h11.IDLE: HEADERS_SECONDS, h11.SEND_BODY: self._seconds + _GRACE}.get(state)
        if seconds is not None:
            self._end = self.loop.call_later(seconds, self.transport.abort)


def app_of(served: Served, nlp: Language) -> FastAPI:
    """The application over a loaded pipeline."""
    service = LinkingService(nlp, served.component, limits=served.limits)
    return create_app(service, served.entity_url, local=served.local)


def run_app(app: FastAPI, listener: socket.socket, limits: Limits) -> None:
    """Serve until Ctrl-C or SIGTERM; requests under way are answered first."""
    _prepare(listener, limits)
    # After an orderly end the server sends itself the signal a second time.
    with suppress(KeyboardInterrupt, SystemExit):
        uvicorn.Server(_config(app, limits)).run(sockets=[listener])


def run_workers(served: Served, listener: socket.socket, workers: int) -> None:
    """Serve from several processes, as ``run_app`` does. uvicorn starts one anew that has died.

    Each loads the pipeline, and they map the same files of the KB. All wait for connections at one socket.
    """
    _prepare(listener, served.limits)
    with TemporaryDirectory(prefix="pel-serve-") as counters:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters  # of all processes, see metrics.py
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // workers)))
        config = _config(
            partial(_loaded_app, served),
            served.limits,
            factory=True,
            workers=workers,
            timeout_worker_healthcheck=_SIGN_OF_LIFE,
        )
        with suppress(KeyboardInterrupt, SystemExit):
            Multiprocess(config, [listener]).run()


def _loaded_app(served: Served) -> FastAPI:
    return app_of(served, served.loaded())


def _config(app: Any, limits: Limits, **more: Any) -> uvicorn.Config:
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


def _prepare(listener: socket.socket, limits: Limits) -> None:
    """End connections whose client does not read, and take as many as a process may have."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
        milliseconds = int(1000 * limits.seconds)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
