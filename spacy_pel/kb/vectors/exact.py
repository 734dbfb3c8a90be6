"""Exact search: the rows of a matrix with the highest scores, found by looking at every row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from .faiss_library import has_gpu, imported_faiss
from .matrix import VectorMatrix

_GPU_DEPTH = 2048  # the most rows that FAISS finds for a query on a GPU
_GATHERED = 1 << 14  # rows copied from a matrix at a time
_CELLS = 1 << 22  # scores of queries and rows in memory at a time: 16 MB


def nearest_of_all(
    matrix: VectorMatrix, queries: np.ndarray, depth: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The rows with the highest inner products with each query, best first.

    The last bits of the scores depend on the size of the batch. A GPU is used if FAISS has one. On
    a CPU numpy multiplies, because the BLAS in FAISS's packages takes five to seven times as long
    (benchmarks/speed).

    Args:
        matrix: The rows.
        queries: float32 [n, dim].
        depth: The number of rows to find for a query.
        rows: The only rows to look at, ascending; None for all.

    Returns:
        Scores, float32 [n, depth], and numbers of rows, int64 [n, depth]. Places without a row hold
        -inf and -1.

    Raises:
        PelError: A row holds NaN or infinity.
    """
    best = _Best(len(queries), depth)
    on_gpu = depth <= _GPU_DEPTH and has_gpu()
    for numbers, block in _blocks(matrix, rows):
        if on_gpu:
            scores, places = _nearest_on_gpu(queries, block, min(depth, len(block)))
            matrix.check_finite(scores)
            best.merge(slice(None), scores, numbers[places])
            continue
        step = max(1, _CELLS // len(block))
        for lines in (slice(i, i + step) for i in range(0, len(queries), step)):
            scores = queries[lines] @ block.T
            matrix.check_finite(scores)
            best.add(lines, scores, numbers)
    return best.in_order()


class _Best:
    """The best rows so far of each of n queries, in any order."""

    def __init__(self, n: int, depth: int) -> None:
        self.scores = np.full((n, depth), -np.inf, dtype=np.float32)
        self.rows = np.full((n, depth), -1, dtype=np.int64)

    def add(self, lines: slice, scores: np.ndarray, rows: np.ndarray) -> None:
        """Adds rows [b], which have the scores [m, b] for these m queries."""
        depth = self.scores.shape[1]
        # After the first blocks hardly any row is among the best, so only those that may be are kept.
        least = self.scores[lines].min(axis=1)
        if len(rows) > depth and np.isneginf(least).any():
            highest = np.partition(scores, len(rows) - depth, axis=1)[:, -depth]
            least = np.maximum(least, highest)
        line, place = np.divmod(np.flatnonzero(scores >= least[:, None]), len(rows))
        if not len(line):
            return
        counts = np.bincount(line, minlength=len(scores))
        column = np.arange(len(line)) - np.repeat(counts.cumsum() - counts, counts)
        picked = np.full((len(scores), counts.max()), -np.inf, dtype=np.float32)
        numbers = np.full(picked.shape, -1, dtype=np.int64)
        picked[line, column] = scores[line, place]
        numbers[line, column] = rows[place]
        self.merge(lines, picked, numbers)

    def merge(self, lines: slice, scores: np.ndarray, rows: np.ndarray) -> None:
        """Adds rows [m, w] with their scores, w for each of these m queries."""
        scores = np.concatenate([self.scores[lines], scores], axis=1)
        rows = np.concatenate([self.rows[lines], rows], axis=1)
        depth = self.scores.shape[1]
        places = np.argpartition(scores, scores.shape[1] - depth, axis=1)[:, -depth:]
        self.scores[lines] = np.take_along_axis(scores, places, axis=1)
        self.rows[lines] = np.take_along_axis(rows, places, axis=1)

    def in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows [n, depth], best first."""
        order = np.argsort(-self.scores, axis=1, kind="stable")
        return tuple(np.take_along_axis(x, order, axis=1) for x in (self.scores, self.rows))


def _blocks(
    matrix: VectorMatrix, rows: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of row numbers, int64 [n], and their vectors, float32 [n, dim]."""
    if rows is None:
        for start, block in matrix.blocks():
            yield np.arange(start, start + len(block)), block
    else:
        for start in range(0, len(rows), _GATHERED):
            numbers = rows[start : start + _GATHERED]
            yield numbers, matrix.take(numbers)


def _nearest_on_gpu(
    queries: np.ndarray, block: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    faiss = imported_faiss()
    metric = faiss.METRIC_INNER_PRODUCT
    return faiss.knn_gpu(_gpu_resources(), queries, block, depth, metric=metric)


@cache
def _gpu_resources() -> object:
    """FAISS's working memory on the GPU, allocated once."""
    return imported_faiss().StandardGpuResources()
