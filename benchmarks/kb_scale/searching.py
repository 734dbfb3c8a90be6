"""Opening and searching a large KB: processor time and memory, in a process that does nothing else.

    python benchmarks/kb_scale/searching.py KB [--queries 100]

KB is a folder with the vectors of random_vectors.py. Queries are rows with noise (cosine 0.9).
changes.py has the recall of such queries. Times are of the processor: other programs do not change them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from vectors import noise, resident, unit

from spacy_pel.kb import KnowledgeBase

T = TypeVar("T")
K = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kb", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    arguments = parser.parse_args()
    before = resident()
    kb, opened = timed(lambda: KnowledgeBase.open(arguments.kb))
    random = np.random.default_rng(1)
    _, look_up = timed(lambda: kb.labels([len(kb) // 2]))
    first_number = np.sort(random.choice(len(kb), arguments.queries, replace=False))
    _, mapped = timed(lambda: kb.rows(first_number[:1]))
    memory = resident()
    rows = kb.rows(first_number)[0][: arguments.queries]
    queries = unit(rows + 0.5 * noise(random, *rows.shape))
    _, first = timed(lambda: kb.search(queries[:1], K))
    after_first = resident()
    singles = [timed(lambda q=query: kb.search(q[None], K))[1] for query in queries]
    _, batch = timed(lambda: kb.search(queries, K))
    print(f"{len(kb):,} entities, {kb.settings['vectors']['rows']:,} vectors of {kb.dim}\n")
    print("| | |\n|---|---:|")
    for name, figure in {
        "opened, ms": 1000 * opened,
        "first look-up of a record, ms": 1000 * look_up,
        "vectors opened, ms": 1000 * mapped,
        "memory before the first search, MB": memory,
        "without the KB, MB": before,
        "first search, ms": 1000 * first,
        "memory after it, MB": after_first,
        "a single search, p50, ms": 1000 * float(np.median(singles)),
        "a single search, p95, ms": 1000 * float(np.percentile(singles, 95)),
        "a search in a batch, ms": 1000 * batch / len(queries),
        "memory at most, MB": resident("VmHWM"),
    }.items():
        print(f"| {name} | {figure:,.1f} |")


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """What a call returns, and its seconds of the processor."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


if __name__ == "__main__":
    main()
