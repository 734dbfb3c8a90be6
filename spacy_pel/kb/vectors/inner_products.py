"""Inner products of queries with rows, the same to the last bit in any batch.

The last bits of FAISS's scores depend on the size of the batch and on where a row stands. With
them, equal vectors would not tie. Here each product is summed on its own.
"""

from __future__ import annotations

import numpy as np

from .faiss_library import imported_faiss
from .matrix import VectorMatrix

_FLOATS = 1 << 18  # numbers of rows in memory at a time, where rows are not float32 in memory


def inner_products(
    matrix: VectorMatrix, queries: np.ndarray, lines: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Inner products of pairs of a query and a row.

    Equal rows have equal products, in whatever type they are stored.

    Args:
        matrix: The rows.
        queries: float32 [m, dim].
        lines: The query of each pair, int64 [n], ascending.
        rows: The row of each pair, int64 [n].

    Returns:
        float32 [n].

    Raises:
        PelError: A row holds NaN or infinity.
    """
    if matrix.in_memory is not None:
        scores = _in_place(matrix.in_memory, queries, lines, rows)
        matrix.check_finite(scores)
        return scores
    scores = np.empty(len(rows), dtype=np.float32)
    step = max(1, _FLOATS // matrix.dim)
    for some in (slice(start, start + step) for start in range(0, len(rows), step)):
        vectors = matrix.take(rows[some])
        scores[some] = _in_place(vectors, queries, lines[some], np.arange(len(vectors)))
    return scores


def _in_place(
    values: np.ndarray, queries: np.ndarray, lines: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """``inner_products`` for rows in memory, float32 [n_rows, dim].

    FAISS reads the rows where they are. That takes a quarter of the time that copying them takes.
    """
    faiss = imported_faiss()
    scores = np.empty(len(rows), dtype=np.float32)
    starts = np.flatnonzero(np.diff(lines, prepend=-1))
    bounds = [*starts.tolist(), len(lines)]
    for line, start, stop in zip(lines[starts].tolist(), bounds, bounds[1:]):
        faiss.fvec_inner_products_by_idx(
            faiss.swig_ptr(scores[start:stop]),
            faiss.swig_ptr(queries[line]),
            faiss.swig_ptr(values),
            faiss.swig_ptr(rows[start:stop]),
            values.shape[1],
            1,
            stop - start,
        )
    return scores
