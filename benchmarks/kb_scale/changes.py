"""Changes of a large KB: seconds of each, and whether search is that over the new contents.

    python benchmarks/kb_scale/changes.py KB [--entities 1000] [--queries 100]

KB is a folder with vectors of any encoder; new entities get random unit vectors. The KB itself
stays as it is: a copy beside it, of links to its files, is changed, and deleted in the end. After
each change the answers of ``KnowledgeBase.search`` are compared with a look at every row there is,
by numpy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from spacy_pel.kb import Candidates, Entity, KnowledgeBase
from spacy_pel.kb.changes import add_entities, remove_entities, update_entities
from spacy_pel.kb.compaction import compact
from spacy_pel.kb.index import opened_rows
from spacy_pel.kb.recall import recall

K = 64


class RandomRows:
    """One row an entity: a unit vector drawn from its id and name."""

    def __init__(self, dim: int, fingerprint: str, row_kind: str) -> None:
        self.dim, self.fingerprint, self.row_kind = dim, fingerprint, row_kind

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        return np.stack([self.vector(entity) for entity in entities]), np.arange(len(entities))

    def vector(self, entity: Entity) -> np.ndarray:
        seed = zlib.crc32("\n".join(entity[:2]).encode())
        vector = np.random.default_rng(seed).standard_normal(self.dim, dtype=np.float32)
        return vector / np.linalg.norm(vector)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kb", type=Path)
    parser.add_argument("--entities", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=100)
    arguments = parser.parse_args()
    copy = arguments.kb.with_name(f"{arguments.kb.name}.changed")
    shutil.copytree(arguments.kb, copy, copy_function=os.link)
    try:
        measure(copy, arguments.entities, arguments.queries)
    finally:
        shutil.rmtree(copy)


def measure(folder: Path, n_entities: int, n_queries: int) -> None:
    """Prints the table of changes of the KB of a folder."""
    random = np.random.default_rng(0)
    with KnowledgeBase.open(folder) as kb:
        encoder = RandomRows(kb.dim, kb.fingerprint, kb.row_kind)
        old = kb.entities(random.choice(kb.numbers(), 2 * n_entities, replace=False))
        print(f"{len(kb):,} entities, {kb.manifest['vectors']['rows']:,} vectors of {kb.dim}\n")
    new = [Entity(f"ADDED{number}", f"new {number}") for number in range(n_entities)]
    other = [entity._replace(canonical_name=f"other {i}") for i, entity in enumerate(old[::2])]
    gone = [entity.concept_id for entity in old[1::2]]
    # Name, function, and which entities must be found and which not when it has run.
    steps: list[tuple[str, Callable[[], object], list[Entity], list[str]]] = [
        ("add", lambda: add_entities(folder, new, encoder), new, []),
        ("update", lambda: update_entities(folder, other, encoder), new + other, []),
        ("remove", lambda: remove_entities(folder, gone), new + other, gone),
        ("compact", lambda: compact(folder), new + other, gone),
    ]
    print("| change | seconds | segments | recall@1 | recall@64 | not found | found though gone |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, change, present, absent in steps:
        start = time.perf_counter()
        change()
        seconds = time.perf_counter() - start
        with KnowledgeBase.open(folder) as kb:
            own = np.stack([encoder.vector(entity) for entity in present])
            first = kb.labels(kb.search(own, 1).numbers[:, 0])
            lost = sum(id != entity.concept_id for (id, _), entity in zip(first, present))
            some = own[:: len(own) // n_queries + 1]
            queries = np.concatenate([some, _rows(kb, n_queries, random)])
            found, truth = kb.search(queries, K), by_every_row(kb, queries)
            shares = recall(found, truth)
            ids = {id for id, _ in kb.labels(np.unique(found.numbers))}
            again = len(ids.intersection(absent)) + sum(id in kb for id in absent)
            segments = len(kb.segments)
        print(
            f"| {name} | {seconds:.2f} | {segments} | {shares['1']:.2%} | {shares['64']:.2%} | "
            f"{lost} of {len(present)} | {again} of {len(absent)} |",
            flush=True,
        )


def _rows(kb: KnowledgeBase, n: int, random: np.random.Generator) -> np.ndarray:
    """Rows of the KB's first segment with noise, float32 [n, dim]."""
    matrix, _ = opened_rows(kb.path, kb.segments[0].entry["vectors"])
    rows = matrix.take(np.sort(random.choice(len(matrix), n, replace=False)))
    noise = random.standard_normal(rows.shape, dtype=np.float32)
    return rows + 0.5 * noise / np.sqrt(kb.dim)


def by_every_row(kb: KnowledgeBase, queries: np.ndarray) -> Candidates:
    """The K best entities of each query by a look at all rows; without FAISS and without index."""
    numbers = np.full((len(queries), K), -1, dtype=np.int64)
    scores = np.full((len(queries), K), -np.inf, dtype=np.float32)
    for segment in kb.segments:
        matrix, row_entities = opened_rows(kb.path, segment.entry["vectors"])
        for start, block in matrix.blocks():
            entities = np.asarray(row_entities[start : start + len(block)])
            products = np.where(segment.live[entities], queries @ block.T, -np.inf)
            for line, row in enumerate(products):
                near = np.argpartition(-row, min(4 * K, len(row) - 1))[: 4 * K]
                best: dict[int, float] = dict(zip(numbers[line].tolist(), scores[line].tolist()))
                for entity, score in zip((entities[near] + segment.first).tolist(), row[near]):
                    best[entity] = max(best.get(entity, -np.inf), float(score))
                best.pop(-1, None)
                ranked = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:K]
                numbers[line, : len(ranked)] = [entity for entity, _ in ranked]
                scores[line, : len(ranked)] = [score for _, score in ranked]
    numbers[~np.isfinite(scores)] = -1
    return Candidates(numbers, scores)


if __name__ == "__main__":
    main()
