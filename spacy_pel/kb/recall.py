"""How much of what exact search finds an approximate index finds too, measured on a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from .approximate import ApproximateRows
from .index import Candidates, VectorIndex
from .vectors import VectorMatrix

DEPTH = 64
_QUERIES = 512
_NOISE = 0.5  # of the length of a row: the cosine of a query and its row is about 0.9
_WANTED = 0.995
_SEED = 0


def fewest_probes(
    matrix: VectorMatrix, row_entities: np.ndarray, ivf: Any
) -> tuple[int, dict[str, float | int]]:
    """The fewest lists, a power of 2 or all, that have recall enough, and the recall they have.

    Recall of entities, as ``recall`` returns it. The queries are rows drawn at random with noise
    added, so that a query is no row itself.
    """
    queries = noisy_rows(matrix)
    truth = VectorIndex(matrix, row_entities).search(queries, DEPTH)
    probes = 1
    while True:
        index = VectorIndex(matrix, row_entities, ApproximateRows(ivf, probes))
        found = recall(index.search(queries, DEPTH), truth)
        if min(found["1"], found["64"]) >= _WANTED or probes == ivf.nlist:
            return probes, {**found, "queries": len(queries)}
        probes = min(2 * probes, ivf.nlist)


def noisy_rows(matrix: VectorMatrix) -> np.ndarray:
    """Queries for a measurement, float32 [n, dim]: the same for the same matrix."""
    random = np.random.default_rng(_SEED)
    rows = np.sort(random.choice(len(matrix), min(_QUERIES, len(matrix)), replace=False))
    vectors = matrix.take(rows)
    noise = random.standard_normal(vectors.shape, dtype=np.float32)
    noise *= _NOISE / np.sqrt(matrix.dim) * np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors + noise


def recall(found: Candidates, truth: Candidates) -> dict[str, float]:
    """The shares found of the true first entities, and of all true ones."""
    pairs = zip(found.numbers, truth.numbers)
    hits = sum(np.isin(line, true[true >= 0]).sum() for line, true in pairs)
    return {
        "1": round(float((found.numbers[:, 0] == truth.numbers[:, 0]).mean()), 4),
        "64": round(float(hits / (truth.numbers >= 0).sum()), 4),
    }
