"""Recall: how much of what exact search finds an approximate index finds, measured on a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from .fast_scan import FastScan
from .index import Candidates, VectorIndex
from .inverted_file import InvertedFile
from .matrix import VectorMatrix

DEPTH = 64
_QUERIES = 512
_NOISE = 0.5  # relative to the length of a row; the cosine of a query and its row is about 0.9
_WANTED = 0.995
_MARGIN = 4  # factor on the lists that the sample needs: mentions are farther from rows than these
_WANTED_OF_CODES = {"1": 0.999, "64": 0.99}
_OVERSAMPLING = 4  # the least; it suffices where a row stands for other rows of its entity
_SEED = 0


def chosen_probes(
    matrix: VectorMatrix, row_entities: np.ndarray, ivf: Any
) -> tuple[int, dict[str, float | int]]:
    """The number of lists that a search should look at, and its recall.

    It is the smallest power of 2 with enough recall for a sample of queries, times a margin.

    Args:
        matrix: The rows.
        row_entities: The entity of each row, integers [n_rows].
        ivf: The FAISS inverted file of the rows.

    Returns:
        The number of lists, and ``recall`` with the number of queries it was measured on.
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
    """The number of rows that ``FastScan`` should find for each entity wanted, and its recall.

    It is the smallest power of 2 with enough recall for a sample of queries: recall of the first
    entity when only one is wanted, and recall of 64 entities. Where rows share codes, it is the
    lowest number, because more would not help.

    Args:
        matrix: The rows.
        row_entities: The entity of each row, integers [n_rows].
        codes: The FAISS index of the codes.

    Returns:
        The number of rows, and ``recall`` with the number of queries it was measured on.
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
        oversampling *= 2  # this ends where search becomes exact
        measured = recall_of(oversampling)
    return oversampling, {**measured, "queries": len(queries)}


def sample_queries(matrix: VectorMatrix) -> np.ndarray:
    """Queries to measure recall with, float32 [n, dim]: the same for the same matrix.

    Half of them are rows with noise. The others lie midway between two rows: far from the centre of
    any list, so that their nearest rows are in several lists.
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
    """The share found of the true first entities ("1"), and of all true entities ("64")."""
    pairs = zip(found.numbers, truth.numbers)
    hits = sum(np.isin(line, true[true >= 0]).sum() for line, true in pairs)
    return {
        "1": round(float((found.numbers[:, 0] == truth.numbers[:, 0]).mean()), 4),
        "64": round(float(hits / (truth.numbers >= 0).sum()), 4),
    }
