"""Changes of a large KB: the time of each, and whether searches see the new contents.

    python benchmarks/kb_scale/changes.py KB [--entities 1000] [--queries 100] [--steps add update]

KB is a folder with the vectors of random_vectors.py. The vectors of new and updated entities lie
around the same centres. KB is not changed: a copy of hard links to its files is, and is deleted at
the end. After each change ``KnowledgeBase.search`` is compared with a search of every row by numpy,
for --queries queries of each kind: old rows with noise, rows of new and updated entities with noise,
and random directions. With ``--queries 0`` nothing is searched.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from vectors import around, cluster_centres, noise, unit

from spacy_pel.kb import Candidates, Entity, KnowledgeBase
from spacy_pel.kb.vectors.recall import recall
from spacy_pel.kb.vectors.stored_index import opened_rows
from spacy_pel.kb.writing.compaction import compact
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities, update_entities

K = 64
STEPS = ("add", "update", "remove", "compact")


class ClusteredRows:
    """Encodes an entity as one row, drawn from its id and name as random_vectors.py draws rows."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.dim, self.fingerprint, self.row_kind = kb.dim, kb.fingerprint, kb.row_kind
        self._clusters = cluster_centres(np.random.default_rng(0), len(kb), kb.dim)

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate([self._row(entity) for entity in entities]), np.arange(len(entities))

    def _row(self, entity: Entity) -> np.ndarray:
        seed = zlib.crc32("\n".join(entity[:2]).encode())
        return around(np.random.default_rng(seed), self._clusters, 1)


class RemovedEntities(NamedTuple):
    """Entities that were removed.

    Attributes:
        ids: Their ids.
        rows: The rows that they had, float32 [n, dim].
    """

    ids: Sequence[str] = ()
    rows: np.ndarray | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kb", type=Path)
    parser.add_argument("--entities", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    arguments = parser.parse_args()
    copy = arguments.kb.with_name(f"{arguments.kb.name}.changed")
    shutil.copytree(arguments.kb, copy, copy_function=os.link)
    try:
        measure(copy, arguments.entities, arguments.queries, arguments.steps)
    finally:
        shutil.rmtree(copy)


def measure(folder: Path, n_entities: int, n_queries: int, chosen: Sequence[str]) -> None:
    """Change the KB of a folder, and print the table of changes."""
    random = np.random.default_rng(0)
    with KnowledgeBase.open(folder) as kb:
        encoder = ClusteredRows(kb)
        numbers = random.choice(kb.numbers(), 2 * n_entities, replace=False)
        old, gone = kb.entities(numbers), kb.rows(numbers[1::2])[0]
        print(f"{len(kb):,} entities, {kb.manifest['vectors']['rows']:,} vectors of {kb.dim}\n")
    new = [Entity(f"ADDED{number}", f"new {number}") for number in range(n_entities)]
    other = [entity._replace(canonical_name=f"other {i}") for i, entity in enumerate(old[::2])]
    removed = RemovedEntities([entity.concept_id for entity in old[1::2]], gone)
    # Name, function, and which entities must be found and which not when it has run.
    steps: list[tuple[str, Callable[[], object], list[Entity], RemovedEntities]] = [
        ("add", lambda: add_entities(folder, new, encoder), new, RemovedEntities()),
        ("update", lambda: update_entities(folder, other, encoder), new + other, RemovedEntities()),
        ("remove", lambda: remove_entities(folder, removed.ids), new + other, removed),
        ("compact", lambda: compact(folder), new + other, removed),
    ]
    columns = ["seconds", "of the processor", "segments"]
    if n_queries:
        kinds = ("old rows", "new rows", "random directions")
        columns += [f"{kind}, @{k}" for kind in kinds for k in (1, K)]
        columns += ["query p50 ms", "not found", "found though gone"]
    print("| change | " + " | ".join(columns) + " |\n|---" + "|---:" * len(columns) + "|")
    for name, change, present, absent in steps:
        if name not in chosen:
            continue
        start, processor = time.perf_counter(), time.process_time()
        change()
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        cells = [f"{seconds:.2f}", f"{processor:.2f}"]
        with KnowledgeBase.open(folder) as kb:
            cells.append(str(len(kb.segments)))
            if n_queries:
                own, _ = encoder.rows(present)
                old_numbers = random.choice(kb.numbers(), n_queries, replace=False)
                new_rows = own[random.choice(len(own), n_queries, replace=False)]
                old_rows = kb.rows(old_numbers)[0][:n_queries]
                queries = [_with_noise(random, part) for part in (old_rows, new_rows)]
                queries.append(unit(noise(random, n_queries, kb.dim)))
                cells += [*_shares(kb, queries), f"{_milliseconds(kb, queries[0]):.1f}"]
                cells += [_lost(kb, present, own), _again(kb, absent)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _shares(kb: KnowledgeBase, queries: Sequence[np.ndarray]) -> list[str]:
    """The recall at 1 and at K for each kind of queries."""
    truth = by_every_row(kb, np.concatenate(queries))
    cells, start = [], 0
    for part in queries:
        end = start + len(part)
        true = Candidates(truth.numbers[start:end], truth.scores[start:end])
        cells += [f"{share:.2%}" for share in recall(kb.search(part, K), true).values()]
        start = end
    return cells


def _lost(kb: KnowledgeBase, present: Sequence[Entity], own: np.ndarray) -> str:
    """The number of entities that are not the first result for their own row."""
    first = kb.labels(kb.search(own, 1).numbers[:, 0])
    lost = sum(id != entity.concept_id for (id, _), entity in zip(first, present))
    return f"{lost} of {len(present)}"


def _again(kb: KnowledgeBase, removed: RemovedEntities) -> str:
    """The number of removed entities that are still found, by their id or by their former row."""
    if not removed.ids:
        return "0 of 0"
    found = {id for id, _ in kb.labels(np.unique(kb.search(removed.rows, K).numbers))}
    again = sum(id in found or id in kb for id in removed.ids)
    return f"{again} of {len(removed.ids)}"


def _milliseconds(kb: KnowledgeBase, queries: np.ndarray) -> float:
    """The median time of a single query, of the processor."""
    times = []
    for query in queries:
        start = time.process_time()
        kb.search(query[None], K)
        times.append(time.process_time() - start)
    return 1000 * float(np.median(times))


def _with_noise(random: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    return unit(rows + 0.5 * noise(random, *rows.shape))


def by_every_row(kb: KnowledgeBase, queries: np.ndarray) -> Candidates:
    """The K best entities of each query by a search of all rows, without FAISS and without index."""
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
