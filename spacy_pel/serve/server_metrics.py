"""Counters of a server, in the text format of Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServerMetrics:
    """Counters of one server, and the memory and processor time of its process.

    Where several processes serve, PROMETHEUS_MULTIPROC_DIR names the folder of their counters. Each
    process then gives the sums of all, and not its memory and time.

    Attributes:
        documents: The number of documents linked.
        mentions: The number of mentions linked.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        """Start at 0. ``waiting`` gives the number of requests under way."""
        self._waiting = waiting
        self._registry = registry = CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            MultiProcessCollector(self._registry)  # reads what is counted in all registries
            _forget_dead_processes(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
            registry = CollectorRegistry()
        else:
            ProcessCollector(registry=registry)
        self._requests = Counter(
            "pel_requests", "Answers, by route and status", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "pel_request_seconds",
            "From a request to its answer",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.documents = Counter("pel_documents", "Documents linked", registry=registry)
        self.mentions = Counter("pel_mentions", "Mentions linked", registry=registry)
        self._under_way = Gauge(
            "pel_requests_under_way",
            "Requests taken on",
            registry=registry,
            multiprocess_mode="livesum",
        )

    def note(self, route: str, status: int, seconds: float) -> None:
        """Count an answer.

        Args:
            route: The template of the route, not the path, so that the number of counters stays
                small.
            status: The HTTP status.
            seconds: The time from the request to the answer.
        """
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._under_way.set(self._waiting())

    def text(self) -> bytes:
        """All counters as they are now."""
        self._under_way.set(self._waiting())
        return generate_latest(self._registry)


def _forget_dead_processes(counters: Path) -> None:
    """Else the requests under way of a process that was killed would be under way for ever."""
    for path in counters.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, str(counters))
