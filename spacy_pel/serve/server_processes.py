"""Several processes that serve one address.

uvicorn starts the processes, and starts one anew that has died. Each loads the pipeline, and they map
the same files of the KB. All wait for connections at one socket.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from tempfile import TemporaryDirectory

from uvicorn.supervisors import Multiprocess

from .served import Served
from .server import server_config

# Seconds in which a process must show that it lives, even while it loads the pipeline.
_SIGN_OF_LIFE = 60


def run_workers(served: Served, listener: socket.socket, workers: int) -> None:
    """Serve until Ctrl-C or SIGTERM; requests under way are answered first.

    Args:
        served: What is served.
        listener: The socket, see ``listener.listen``.
        workers: The number of processes.
    """
    with TemporaryDirectory(prefix="pel-serve-") as counters:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters  # of all processes, see server_metrics
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // workers)))
        config = server_config(
            served,
            served.limits,
            factory=True,
            workers=workers,
            timeout_worker_healthcheck=_SIGN_OF_LIFE,
        )
        with suppress(KeyboardInterrupt, SystemExit):
            Multiprocess(config, [listener]).run()
