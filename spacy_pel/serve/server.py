"""The web server: uvicorn, from its start until it is told to end."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from .served import Limits
from .service import client_at

# The number of connections that a client may hold. It is more than a browser or a proxy needs.
CONNECTIONS_OF_CLIENT = 200
# The time for the first line and the headers of a request, in seconds.
HEADERS_SECONDS = 10.0
# Seconds in which a process must show that it lives, even while it loads the pipeline.
_SIGN_OF_LIFE = 60
# Errors alone, on stderr. A client must not fill the log, as with uvicorn's warning of each request
# that is not HTTP.
_LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"printable": {"()": "spacy_pel.io.printable.PrintableFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "printable"}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
}


class Connection(H11Protocol):
    """One connection of uvicorn, which also ends if no request comes, or its client has too many.

    uvicorn waits forever for a first request, and for the rest of its headers. Its
    ``limit_concurrency`` counts idle connections, so that one client could keep out all others.
    """

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        clients = [client_at(other.client) for other in self.connections]
        if clients.count(client_at(self.client)) > CONNECTIONS_OF_CLIENT:
            transport.abort()
        self._await_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request()

    def _await_request(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = self.loop.call_later(HEADERS_SECONDS, self._end_without_request)

    def _end_without_request(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


def run_app(
    app: FastAPI | Callable[[], FastAPI], listener: socket.socket, limits: Limits, workers: int = 1
) -> None:
    """Serve until Ctrl-C or SIGTERM; requests under way are answered first.

    With several workers ``app``, as plain data, makes the application of each process; they map the
    same files of the KB, and wait for connections at one socket. uvicorn starts one anew that has died.
    """
    _prepare(listener, limits)
    # After an orderly end the server sends itself the signal a second time.
    with suppress(KeyboardInterrupt, SystemExit):
        if workers == 1:
            uvicorn.Server(_config(app, limits)).run(sockets=[listener])
            return
        with TemporaryDirectory(prefix="pel-serve-") as counters:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters  # of all processes
            cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
            os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(cores) // workers)))
            options = {"workers": workers, "timeout_worker_healthcheck": _SIGN_OF_LIFE}
            config = _config(app, limits, factory=True, **options)
            Multiprocess(config, [listener]).run()


def _config(app: Any, limits: Limits, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
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
