"""Counters of a server for Prometheus, of all its processes if it has several."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SECONDS = Histogram("pel_request_seconds", "From a request to its answer", ["route", "status"])
DOCUMENTS = Counter("pel_documents", "Documents linked")
MENTIONS = Counter("pel_mentions", "Mentions linked")


def metrics_text() -> bytes:
    """All counters as they are now; of one process also its memory and processor time.

    Where several processes serve, PROMETHEUS_MULTIPROC_DIR names the folder of their counters.
    """
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)
