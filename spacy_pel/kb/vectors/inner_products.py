"""Inner products of queries with some rows each, the same to the last bit in any batch.

The scores of FAISS's searches depend, in the last bits, on the size of the batch and on where a row
stands, so that equal vectors would not tie. Here each product is summed alone.
"""

from __future__ import annotations

import numpy as np

from .exact import imported_faiss
from .matrix import VectorMatrix

_FLOATS = 1 << 18  # numbers of rows held at a time, where they are not float32 in memory


def inner_products(
    matrix: VectorMatrix, queries: np.ndarray, lines: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Inner products, float32 [n], of queries, the lines int64 [n], ascending, with rows int64 [n].

    queries: float32 [m, dim]. Of equal rows they are equal, however the rows are stored.
    """
    if matrix.in_memory is not None:
        return _in_place(matrix.in_memory, queries, lines, rows)
    scores = np.empty(len(rows), dtype=np.float32)
    step = max(1, _FLOATS // matrix.dim)
    for some in (slice(start, start + step) for start in range(0, len(rows), step)):
        vectors = matrix.take(rows[some])
        scores[some] = _in_place(vectors, queries, lines[some], np.arange(len(vectors)))
    return scores


def _in_place(
    values: np.ndarray, queries: np.ndarray, lines: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """As ``inner_products``, of float32 rows [n_rows, dim], which FAISS reads where they are: in a
    quarter of the time that copies of those wanted take."""
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
