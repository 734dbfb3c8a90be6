"""Give each entity of a KB random unit vectors, clustered as those of an encoder are.

    python benchmarks/kb_scale/random_vectors.py KB [--dim 384] [--names 1] [--entities 10000000]

An entity has as many vectors as names, near each other. With ``--entities`` the KB is built first:
that many entities with a name each.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from vectors import clustered, noise, unit

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors


def named(n: int) -> Iterator[Entity]:
    """Entities with nothing but a name."""
    return (Entity(f"C{number:08}", f"name {number}") for number in range(n))


def batches(n: int, dim: int, names: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    start, random = 0, np.random.default_rng(1)
    for block in clustered(np.random.default_rng(0), n, dim):
        numbers = np.repeat(np.arange(start, start + len(block)), names)
        if names > 1:
            block = unit(np.repeat(block, names, axis=0) + 0.3 * noise(random, len(numbers), dim))
        yield block, numbers
        start = numbers[-1] + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kb", type=Path)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--names", type=int, default=1, help="vectors of an entity")
    parser.add_argument("--index", default="auto", help="auto, exact or approximate")
    parser.add_argument("--entities", type=int, help="build the KB first, of this many")
    arguments = parser.parse_args()
    if arguments.entities:
        start = time.process_time()
        build_kb(named(arguments.entities), arguments.kb).close()
        seconds = time.process_time() - start
        print(f"{arguments.entities:,} entities in {seconds:.0f} s of the processor.", flush=True)
    start, processor = time.perf_counter(), time.process_time()
    with KnowledgeBase.open(arguments.kb) as kb:
        n = len(kb)
    made = write_vectors(
        arguments.kb,
        batches(n, arguments.dim, arguments.names),
        dim=arguments.dim,
        index=arguments.index,
        dtype="float16" if arguments.index == "exact" else "auto",
        fingerprint="random",
        row_kind="entity" if arguments.names == 1 else "name",
    )
    index = made.settings["vectors"]["found_by"]
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = index["kind"] if index else "exact"
    if index and "probes" in index:
        found += f", {index['probes']} lists a search"
    print(f"{n * arguments.names:,} vectors of {arguments.dim} in {seconds:.0f} s; index: {found}.")
    print(f"{processor:.0f} s of the processor; at most {peak:,.0f} MB of memory.")


if __name__ == "__main__":
    main()
