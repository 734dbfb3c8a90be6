"""Several processes that serve one address.

uvicorn starts the processes, and starts one anew that has died. Each loads the pipeline, and they map
the same files of the KB. All wait for connections at one socket.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from uvicorn.supervisors import Multiprocess

from ..pipeline.pipelines import linker_of, load_pipeline
from .app import create_app
from .limits import Limits
from .server import server_config
from .service import LinkingService

if TYPE_CHECKING:
    from fastapi import FastAPI
    from spacy.language import Language


@dataclass(frozen=True)
class Served:
    """What a server serves, in a form that can be sent to another process.

    Attributes:
        pipeline: The path or the package of the pipeline.
        component: The name of the linker in it.
        kb: Another KB than its own.
        spans_key: The key of the span group that is linked; None: the pipeline's setting.
        candidates: The number of candidates given for each mention.
        entity_url: See ``app.create_app``.
        limits: The limits on requests, of each process.
        local: See ``app.create_app``.
    """

    pipeline: Path
    component: str
    kb: Path | None
    spans_key: str | None
    candidates: int
    entity_url: str | None
    limits: Limits
    local: bool

    def loaded(self) -> Language:
        """Load the pipeline. Raises PelError if it cannot be loaded or linked with."""
        nlp = load_pipeline(self.pipeline)
        linker = linker_of(nlp, self.component, kb=self.kb, spans_key=self.spans_key)
        linker.candidates = self.candidates
        return nlp

    def app(self, nlp: Language) -> FastAPI:
        """The application that serves a loaded pipeline."""
        service = LinkingService(nlp, self.component, limits=self.limits)
        return create_app(service, self.entity_url, local=self.local)

    def __call__(self) -> FastAPI:
        """Load the pipeline, and give the application."""
        return self.app(self.loaded())


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
        config = server_config(served, served.limits, factory=True, workers=workers)
        with suppress(KeyboardInterrupt, SystemExit):
            Multiprocess(config, [listener]).run()
