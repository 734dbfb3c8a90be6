"""The rows of a matrix that are nearest to queries, by looking at every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType

import numpy as np

from ..errors import PelError
from .vectors import VectorMatrix

_GPU_DEPTH = 2048  # the most rows a query that FAISS finds on a GPU
_GATHERED = 1 << 14  # rows taken out of a matrix at a time


def nearest_of_all(
    matrix: VectorMatrix, queries: np.ndarray, depth: int, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores float32 and rows int64 [n, depth] of the nearest rows, best first; -inf and -1 fill.

    rows: ascending row numbers, to look at these alone. The scores are FAISS's: their last bits
    differ with the size of the batch. A GPU is used where FAISS has one.
    """
    faiss = imported_faiss()
    heap = faiss.ResultHeap(len(queries), depth, keep_max=True)
    for numbers, block in _blocks(matrix, rows):
        scores, places = _nearest_of_block(faiss, queries, block, min(depth, len(block)))
        heap.add_result(scores, numbers[places])
    heap.finalize()
    heap.D[heap.I < 0] = -np.inf
    return heap.D, heap.I


def _blocks(
    matrix: VectorMatrix, rows: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of row numbers int64 [n] and their vectors float32 [n, dim]."""
    if rows is None:
        for start, block in matrix.blocks():
            yield np.arange(start, start + len(block)), block
    else:
        for start in range(0, len(rows), _GATHERED):
            numbers = rows[start : start + _GATHERED]
            yield numbers, matrix.take(numbers)


def _nearest_of_block(
    faiss: ModuleType, queries: np.ndarray, block: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    metric = faiss.METRIC_INNER_PRODUCT
    if depth <= _GPU_DEPTH and hasattr(faiss, "knn_gpu") and faiss.get_num_gpus():
        return faiss.knn_gpu(_gpu_resources(), queries, block, depth, metric=metric)
    return faiss.knn(queries, block, depth, metric=metric)


@cache
def _gpu_resources() -> object:
    """FAISS's scratch memory on the GPU, made once."""
    return imported_faiss().StandardGpuResources()


def imported_faiss() -> ModuleType:
    """The module faiss; PelError if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise PelError(
            'FAISS is not installed; run: pip install "spacy-pel[cpu]"  '
            '(or "spacy-pel[gpu]" with a GPU)'
        ) from error
    return faiss
