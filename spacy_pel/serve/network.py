"""Open the socket of a server, and serve the application on it with uvicorn."""

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

# Seconds without a health check after which uvicorn replaces a process: longer than loading a pipeline.
_HEALTH_CHECK_SECONDS = 60
# Only errors: uvicorn also warns about each request that is not HTTP, which would let clients fill the log.
_LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"printable": {"()": "spacy_pel.io.printable.PrintableFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "printable"}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "propagate": False}},
}


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens for connections; port 0 takes any free port.

    Raises:
        PelError: This computer does not have the address, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise PelError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
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
    """Serve until Ctrl-C or SIGTERM, and finish the requests in flight.

    The processes map the same files of the KB, and share the socket. uvicorn restarts a process that dies.

    Args:
        app: The application; for several workers, a picklable function that makes it in each process.
        listener: The socket (``listen``).
        limits: The limits of each process.
        workers: The number of processes.
    """
    # After a clean shutdown, uvicorn raises the signal again.
    with suppress(KeyboardInterrupt, SystemExit):
        if workers == 1:
            uvicorn.Server(_config(app, limits)).run(sockets=[listener])
            return
        with TemporaryDirectory(prefix="pel-serve-") as counters:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters
            cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
            os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(cores) // workers)))
            config = _config(
                app,
                limits,
                factory=True,
                workers=workers,
                timeout_worker_healthcheck=_HEALTH_CHECK_SECONDS,
            )
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
