"""An approximate index of codes that are all looked at: 4 bits for 2 numbers of a row, or for one.

FAISS's ``IndexPQFastScan`` adds up those of 32 rows at a time, by tables that stay in registers: a
third of the work of exact search. What it finds is scored again from the matrix.

Of rows of one entity that are much alike, one may have a code for all: names such as "lung cancers"
and "cancers, lung". Then the rows found tell which entities to look at, and all rows of these are
scored.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .exact import imported_faiss
from .inverted_file import RowSelection
from .matrix import VectorMatrix, unreadable

FAST_SCAN_KIND = "PQ4"
_BITS = 4
_TRAINED = 20_000  # rows that the codes are learnt from
_SEED = 0
_CELLS = 1 << 21  # rows found, over all queries of a chunk: bounds the memory of a search
_FEW_NUMBERS = 192  # so short rows want finer codes: else too many rows have to be looked at again
_ADDED = 1 << 16  # coded rows taken out of the matrix at a time
_SHARE = 1 / 8  # of the rows, which to look for is no longer quicker than to look at all of them


class FastScan:
    """Finds rows near to queries by the codes of all rows, which it holds in memory."""

    bounds = False

    def __init__(self, codes: Any, oversampling: int) -> None:
        """codes: a FAISS index. oversampling: how many rows are to be found for an entity."""
        self.oversampling = oversampling
        self._codes = codes
        faiss = imported_faiss()
        self._coded: np.ndarray | None = None  # the rows that have codes, if not all have
        if isinstance(codes, faiss.IndexIDMap):
            self._coded = faiss.vector_to_array(codes.id_map)

    @classmethod
    def opened(cls, folder: Path, settings: dict[str, Any]) -> FastScan:
        """The index of a manifest's settings; PelError if it is unreadable."""
        path = folder / settings["file"]
        try:
            codes = imported_faiss().read_index(str(path))
        except RuntimeError as error:
            raise unreadable(path) from error
        return cls(codes, settings["oversampling"])

    @property
    def finds_entities(self) -> bool:
        """Whether the rows found stand for others, of the same entities."""
        return self._coded is not None

    def suits(self, depth: int, selection: RowSelection | None) -> bool:
        """Whether it finds so many rows quicker than they are found without it.

        It cannot find all: a row at the end of what 16 bits hold is as good as none to FAISS.
        """
        return self._reach(depth, selection) < _SHARE * self._codes.ntotal

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """About the best rows: scores, roughly right, float32, and numbers int64 [n, depth].

        Best first; -inf and -1 fill, where too few of a selection are among those found. effort is
        in the depth. A line is the same, to the last bit, whatever the other queries are: FAISS
        makes the tables of a query, and adds them up, for itself.
        """
        reach = self._reach(depth, selection)
        step = max(1, _CELLS // reach)
        parts = []
        for start in range(0, len(queries), step):
            scores, rows = self._codes.search(queries[start : start + step], reach)
            if selection is not None:
                scores, rows = _selected(scores, rows, depth, selection)
            scores[rows < 0] = -np.inf
            parts.append((scores, rows))
        scores, rows = (np.concatenate(part) for part in zip(*parts))
        return scores, rows

    def sees_all(self, effort: int, selection: RowSelection | None) -> bool:
        return False

    def list_sizes(self, rows: np.ndarray) -> None:
        """There are no lists."""

    def _reach(self, depth: int, selection: RowSelection | None) -> int:
        """How many rows to find so that, on an average, depth of them are of the selection."""
        if selection is None:
            return depth
        n_rows = 8 * len(selection.bits)  # rounded up to whole bytes
        return -(-depth * n_rows // len(selection.rows))


def _selected(
    scores: np.ndarray, rows: np.ndarray, depth: int, selection: RowSelection
) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of the selection in each line, [n, depth], and their scores; -1 fills."""
    bits = selection.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1
    kept = (bits == 1) & (rows >= 0)
    order = np.argsort(~kept, axis=1, kind="stable")[:, :depth]
    rows = np.where(kept, rows, -1)
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def built_fast_scan(matrix: VectorMatrix, coded: np.ndarray | None = None) -> Any:
    """A FAISS index of all rows: the same for the same rows. Holds the codes in memory.

    coded: int64, the rows that get codes, if not all do.
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
    """Rows that stand for all: int64, ascending; of each entity enough that every one of its rows
    has a cosine of ``alike`` or more with one of them.

    row_entities: ascending, [n_rows]: those of an entity stand side by side.
    Of those that none stands for yet, that which stands for the most is next; of several, the first.
    """
    bounds = np.flatnonzero(np.diff(row_entities, prepend=-1, append=-1))
    parts = [_unlike(matrix.take(np.arange(*pair)), alike) + pair[0] for pair in pairwise(bounds)]
    return np.concatenate(parts)


def _unlike(rows: np.ndarray, alike: float) -> np.ndarray:
    """As ``representative_rows``, of the rows of one entity."""
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
    """How many codes a row has: one for 2 of its numbers, or for each if they are odd, or few, and
    rows share none. Where they do, more rows are found than entities are wanted."""
    halved = dim % 2 == 0 and (shared or dim > _FEW_NUMBERS)
    return dim // 2 if halved else dim
