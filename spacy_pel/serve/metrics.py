"""Counters of a server, in the text format of Prometheus."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import prometheus_client as prometheus
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ServerMetrics:
    """Counters of one server, and the memory and processor time of its process.

    Where several processes serve, PROMETHEUS_MULTIPROC_DIR names the folder of their counters. Each
    process then gives the sums of all, and not its memory and time.
    """

    def __init__(self, under_way: Callable[[], int]) -> None:
        self._under_way = under_way  # the number of requests under way
        self._registry = registry = prometheus.CollectorRegistry()
        if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            MultiProcessCollector(self._registry)  # reads what is counted in all registries
            _forget_dead_processes(Path(folder))
            registry = prometheus.CollectorRegistry()
        else:
            prometheus.ProcessCollector(registry=registry)
        self._answers = prometheus.Counter(
            "pel_requests", "Answers, by route and status", ["route", "status"], registry=registry
        )
        self._seconds = prometheus.Histogram(
            "pel_request_seconds", "From a request to its answer", ["route"],
            buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self.documents = prometheus.Counter("pel_documents", "Documents linked", registry=registry)
        self.mentions = prometheus.Counter("pel_mentions", "Mentions linked", registry=registry)
        self._gauge = prometheus.Gauge(
            "pel_requests_under_way", "Requests taken on",
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip

    def note(self, route: str, status: int, seconds: float) -> None:
        """Count an answer: the template of its route, its status, and the time that it took."""
        self._answers.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._gauge.set(self._under_way())

    def text(self) -> bytes:
        """All counters as they are now."""
        self._gauge.set(self._under_way())
        return prometheus.generate_latest(self._registry)


def _forget_dead_processes(counters: Path) -> None:
    """Else the requests under way of a process that was killed would be under way for ever."""
    for path in counters.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, str(counters))
