"""An approximate index for up to two million rows: FAISS's fast scan of 4-bit codes (PQ).

A code of 4 bits stands for 2 numbers of a row, or for 1. FAISS's ``IndexPQFastScan`` looks at the
codes of all rows, 32 rows at a time, with tables that stay in registers. That is a third of the work
of exact search.

Rows of one entity may be very similar, for example those of the names "lung cancers" and "cancers,
lung". Then one of them may have a code for all of them: the index finds the entity, and all of its
rows are scored.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .faiss_library import imported_faiss
from .matrix import VectorMatrix, unreadable
from .row_finder import RowSelection

FAST_SCAN_KIND = "PQ4"
_BITS = 4
_TRAINED = 20_000  # rows that the codes are learnt from
_SEED = 0
_CELLS = 1 << 21  # rows found for all queries of a chunk: limits the memory of a search
_FEW_NUMBERS = 192  # rows this short need a code for each number, or too many would be scored again
_DAMAGE = (RuntimeError, MemoryError)  # what FAISS raises for a damaged file
_ADDED = 1 << 16  # coded rows copied from the matrix at a time
_SHARE = 1 / 8  # of the rows; to find more than that is slower than to look at all rows


class FastScan:
    """A ``RowFinder`` that looks at the codes of all rows, which it keeps in memory."""

    bounds = False

    def __init__(self, codes: Any, oversampling: int) -> None:
        """Takes an index that is open.

        Args:
            codes: A FAISS index.
            oversampling: The number of rows to find for each entity that is wanted.
        """
        self.oversampling = oversampling
        self._codes = codes
        faiss = imported_faiss()
        self._coded: np.ndarray | None = None  # the rows that have codes, if not all have
        if isinstance(codes, faiss.IndexIDMap):
            self._coded = faiss.vector_to_array(codes.id_map)

    @classmethod
    def opened(cls, path: Path, settings: dict[str, Any]) -> FastScan:
        """The index of a file that a KB's settings describe; PelError if it is unreadable."""
        try:
            codes = imported_faiss().read_index(str(path))
        except _DAMAGE as error:
            raise unreadable(path) from error
        return cls(codes, settings["oversampling"])

    def fits(self, matrix: VectorMatrix) -> bool:
        """Whether it is an index of these rows, as far as its sizes and numbers say."""
        faiss, coded, scanned = imported_faiss(), self._coded, self._codes
        if coded is not None:
            scanned = faiss.downcast_index(scanned.index)
            if len(coded) and not 0 <= coded.min() <= coded.max() < len(matrix):
                return False
        n_coded = len(matrix) if coded is None else len(coded)
        sizes = (n_coded, n_coded, matrix.dim)
        if not isinstance(scanned, faiss.IndexPQFastScan) or matrix.dim % max(scanned.M, 1):
            return False
        return (self._codes.ntotal, scanned.ntotal, scanned.d) == sizes

    @property
    def finds_entities(self) -> bool:
        """Whether a row that is found stands for other rows of its entity as well."""
        return self._coded is not None

    def suits(self, depth: int, selection: RowSelection | None) -> bool:
        """Whether it finds this many rows faster than a search of all rows does.

        It cannot find all rows: FAISS adds up scores in 16 bits, and a row with the lowest value
        that these can hold counts as not found.
        """
        return self._reach(depth, selection) < _SHARE * self._codes.ntotal

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Approximately the best rows of each query; see ``RowFinder.nearest``.

        It finds fewer than ``depth`` rows if too few of a selection are among the best of all rows.
        ``effort`` is not used, because ``depth`` grows with it. The answer to a query does not
        depend, to the last bit, on the other queries: FAISS makes the tables of each query alone.
        """
        reach = self._reach(depth, selection)
        step = max(1, _CELLS // reach)
        chunks = []
        for start in range(0, len(queries), step):
            scores, rows = self._codes.search(queries[start : start + step], reach)
            if selection is not None:
                scores, rows = _selected(scores, rows, depth, selection)
            scores[rows < 0] = -np.inf
            chunks.append((scores, rows))
        scores, rows = (np.concatenate(arrays) for arrays in zip(*chunks))
        return scores, rows

    def sees_all(self, effort: int, selection: RowSelection | None) -> bool:
        """Never; see ``suits``."""
        return False

    def list_sizes(self, rows: np.ndarray) -> None:
        """None: there are no lists."""

    def _reach(self, depth: int, selection: RowSelection | None) -> int:
        """The number of rows to find so that, on average, ``depth`` of them are selected."""
        if selection is None:
            return depth
        n_rows = 8 * len(selection.bits)  # rounded up to whole bytes
        return -(-depth * n_rows // len(selection.rows))


def _selected(
    scores: np.ndarray, rows: np.ndarray, depth: int, selection: RowSelection
) -> tuple[np.ndarray, np.ndarray]:
    """The scores and numbers of the first selected rows of each query, [n, depth]; -1 fills."""
    bits = selection.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1
    kept = (bits == 1) & (rows >= 0)
    order = np.argsort(~kept, axis=1, kind="stable")[:, :depth]
    rows = np.where(kept, rows, -1)
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def built_fast_scan(matrix: VectorMatrix, coded: np.ndarray | None = None) -> Any:
    """A FAISS index of the codes of rows. The same rows give the same index.

    Args:
        matrix: The rows.
        coded: The rows that get a code, int64; None for all.
    """
    faiss = imported_faiss()
    random = np.random.default_rng(_SEED)
    n_trained = min(len(matrix), _TRAINED)
    sample = matrix.take(np.sort(random.choice(len(matrix), n_trained, replace=False)))
    codes = faiss.IndexPQFastScan(
        matrix.dim, _pieces(matrix.dim, coded is not None), _BITS, faiss.METRIC_INNER_PRODUCT
    )
    codes.pq.cp.seed = _SEED
    codes.pq.cp.min_points_per_centroid = 1  # no warning
    codes.train(np.resize(sample, (max(n_trained, 1 << _BITS), matrix.dim)))
    if coded is None:
        for _, block in matrix.blocks():
            codes.add(np.ascontiguousarray(block))
        return codes
    numbered = faiss.IndexIDMap(codes)
    for rows in np.split(coded, range(_ADDED, len(coded), _ADDED)):
        numbered.add_with_ids(matrix.take(rows), rows)
    return numbered


def representative_rows(matrix: VectorMatrix, row_entities: np.ndarray, alike: float) -> np.ndarray:
    """Rows that can stand for all rows: each row is similar to one of them of its entity.

    They are chosen greedily, entity by entity. The next one is always the row that is similar to
    the largest number of rows without a representative. If several rows are, the first is taken.

    Args:
        matrix: The rows.
        row_entities: The entity of each row, ascending, [n_rows].
        alike: The least cosine of similar rows.

    Returns:
        The numbers of the rows: int64, ascending.
    """
    bounds = np.flatnonzero(np.diff(row_entities, prepend=-1, append=-1))
    per_entity = [
        _representatives(matrix.take(np.arange(start, stop)), alike) + start
        for start, stop in pairwise(bounds)
    ]
    return np.concatenate(per_entity)


def _representatives(rows: np.ndarray, alike: float) -> np.ndarray:
    """``representative_rows`` of the rows of one entity."""
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    near = units @ units.T >= alike
    np.fill_diagonal(near, True)
    left = np.ones(len(rows), dtype=bool)
    chosen = np.zeros(len(rows), dtype=bool)
    while left.any():
        best = (near & left & left[:, None]).sum(axis=1).argmax()
        chosen[best] = True
        left &= ~near[best]
    return np.flatnonzero(chosen)


def _pieces(dim: int, shared: bool) -> int:
    """The number of codes of a row: one for 2 of its numbers, or one for each number.

    It is one for each number if a row has an odd count of numbers, or few numbers and a code of its
    own. Where rows share codes, more rows are found than entities are wanted, so coarse codes do.
    """
    halved = dim % 2 == 0 and (shared or dim > _FEW_NUMBERS)
    return dim // 2 if halved else dim
