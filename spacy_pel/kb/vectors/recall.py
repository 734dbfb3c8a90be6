"""How much of what exact search finds an approximate index finds too, measured on a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from .fast_scan import FastScan
from .index import Candidates, VectorIndex
from .inverted_file import InvertedFile
from .matrix import VectorMatrix

DEPTH = 64
_QUERIES = 512
_NOISE = 0.5  # of the length of a row: the cosine of a query and its row is about 0.9
_WANTED = 0.995
_MARGIN = 4  # times the lists that the sample needs: mentions are less near to rows than these
_WANTED_OF_CODES = {"1": 0.999, "64": 0.99}
_OVERSAMPLING = 4  # the least, and what suffices where rows stand for others of an entity
_SEED = 0


def chosen_probes(
    matrix: VectorMatrix, row_entities: np.ndarray, ivf: Any
) -> tuple[int, dict[str, float | int]]:
    """How many lists a search should look at, and the recall that it has then.

    The fewest lists, a power of 2, that have recall enough for a sample of queries, and a margin.
    Recall of entities, as ``recall`` returns it.
    """
    queries = sample_queries(matrix)
    truth = VectorIndex(matrix, row_entities).search(queries, DEPTH)

    def recall_of(probes: int) -> dict[str, float]:
        index = VectorIndex(matrix, row_entities, InvertedFile(ivf, probes))
        return recall(index.search(queries, DEPTH), truth)

    probes = 1
    while probes < ivf.nlist and min(recall_of(probes).values()) < _WANTED:
        probes *= 2
    probes = min(_MARGIN * probes, ivf.nlist)
    return probes, {**recall_of(probes), "queries": len(queries)}


def chosen_oversampling(
    matrix: VectorMatrix, row_entities: np.ndarray, codes: Any
) -> tuple[int, dict[str, float | int]]:
    """How many rows ``FastScan`` should find for an entity, and the recall that it has then.

    The fewest, a power of 2, that have recall enough for a sample of queries: of the first entity
    when it alone is wanted, and of as many as ``recall`` counts. More would not help where one row
    has a code for several.
    """
    queries = sample_queries(matrix)
    truth = VectorIndex(matrix, row_entities).search(queries, DEPTH)

    def recall_of(oversampling: int) -> dict[str, float]:
        index = VectorIndex(matrix, row_entities, FastScan(codes, oversampling))
        measured = recall(index.search(queries, DEPTH), truth)
        first = index.search(queries, 1)
        return {**measured, "1": recall(first, Candidates(*(x[:, :1] for x in truth)))["1"]}

    oversampling, measured = _OVERSAMPLING, recall_of(_OVERSAMPLING)
    wanted = {} if FastScan(codes, oversampling).finds_entities else _WANTED_OF_CODES
    while any(measured[at] < share for at, share in wanted.items()):
        oversampling *= 2  # ends where search becomes exact
        measured = recall_of(oversampling)
    return oversampling, {**measured, "queries": len(queries)}


def sample_queries(matrix: VectorMatrix) -> np.ndarray:
    """Queries for a measurement, float32 [n, dim]: the same for the same matrix.

    Half of them are rows with noise, half lie midway between two rows: far from the middle of any
    list, where the nearest rows are spread over several.
    """
    random = np.random.default_rng(_SEED)
    rows = np.sort(random.choice(len(matrix), min(_QUERIES, len(matrix)), replace=False))
    vectors = matrix.take(rows)[random.permutation(len(rows))]
    between = vectors + np.roll(vectors, 1, axis=0)
    noise = random.standard_normal(vectors.shape, dtype=np.float32)
    noise *= _NOISE / np.sqrt(matrix.dim) * np.linalg.norm(vectors, axis=1, keepdims=True)
    half = len(rows) // 2
    return np.concatenate([(vectors + noise)[:half], between[half:]])


def recall(found: Candidates, truth: Candidates) -> dict[str, float]:
    """The shares found of the true first entities, and of all true ones."""
    pairs = zip(found.numbers, truth.numbers)
    hits = sum(np.isin(line, true[true >= 0]).sum() for line, true in pairs)
    return {
        "1": round(float((found.numbers[:, 0] == truth.numbers[:, 0]).mean()), 4),
        "64": round(float(hits / (truth.numbers >= 0).sum()), 4),
    }
