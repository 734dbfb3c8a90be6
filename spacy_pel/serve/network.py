"""The socket of a server, and uvicorn, from its start until it is told to end."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from ..errors import PelError
from .limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

# Seconds in which a process must show that it lives, even while it loads the pipeline.
_SIGN_OF_LIFE = 60
# Errors alone, on stderr: uvicorn also warns of each request that is not HTTP, and a client must not
# fill the log.
_LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"printable": {"()": "spacy_pel.io.printable.PrintableFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "printable"}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
}


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens for connections; port 0 takes any that is free.

    Raises:
        PelError: The address is not one of this computer, or the port is taken.
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
    """Return whether only this computer can reach the socket."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def address(listener: socket.socket) -> str:
    """Return the URL of the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_app(
    app: FastAPI | Callable[[], FastAPI], listener: socket.socket, limits: Limits, workers: int = 1
) -> None:
    """Serve until Ctrl-C or SIGTERM; requests in flight are answered first.

    With several workers, ``app`` is plain data that makes the application in each process. The
    processes map the same files of the KB and share one socket. uvicorn replaces one that dies.
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
        http="h11",
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
    """Take as many connections as a process may have, and drop those whose client is gone or does not read."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections inherit it
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        milliseconds = int(1000 * limits.seconds)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
