"""Give each entity of a KB one random unit vector, clustered as those of an encoder are.

python benchmarks/kb_scale/random_vectors.py KB [--dim 384]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from vectors import clustered

from spacy_pel.kb import KnowledgeBase, write_vectors


def batches(n: int, dim: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    start = 0
    for block in clustered(np.random.default_rng(0), n, dim):
        yield block, np.arange(start, start + len(block))
        start += len(block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kb", type=Path)
    parser.add_argument("--dim", type=int, default=384)
    arguments = parser.parse_args()
    start = time.perf_counter()
    with KnowledgeBase.open(arguments.kb) as kb:
        n = len(kb)
    made = write_vectors(
        arguments.kb,
        batches(n, arguments.dim),
        dim=arguments.dim,
        fingerprint="random",
        row_kind="entity",
    )
    index = made.segments[0].entry["vectors"]["index"]
    seconds = time.perf_counter() - start
    found = index["kind"] if index else "exact"
    print(f"{n:,} vectors of {arguments.dim} in {seconds:.0f} s; index: {found}.")


if __name__ == "__main__":
    main()
