"""Approximate indexes, of FAISS: what finds the rows near a query without looking at all of them.

``VectorIndex`` scores the rows that a finder returns again, from the vectors themselves. So a finder
decides which rows are looked at, and never what they score.

Up to two million rows it is a fast scan of 4-bit codes (``IndexPQFastScan``). A code stands for 2
numbers of a row, or for 1. FAISS looks at the codes of all rows, 32 rows at a time, with tables that
stay in registers: a third of the work of exact search. Rows of one entity may be very similar, for
example those of the names "lung cancers" and "cancers, lung". Then one of them may have a code for
all of them: the index finds the entity, and all of its rows are scored.

Above, it is an inverted file (``IndexIVFScalarQuantizer``). Rows stand in lists around centres, each
as a code of 8 or 4 bits a number. A search looks at the lists whose centres are nearest to the query.
The codes stay in their file, mapped into memory.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import damaged
from .faiss_library import imported_faiss
from .matrix import VectorMatrix

FAST_SCAN_KIND = "PQ4"
CODE_BITS = {"SQ8": 8, "SQ4": 4}  # of an inverted file: bits for each number of a vector, by kind
INDEX_MEMORY = 2 << 30  # bytes that the codes of an inverted file may take by default
_ID = 8  # bytes that FAISS adds to a code of an inverted file
_SEED = 0
_TRAINED = 20_000  # rows that the codes of a fast scan are learnt from
_FEW_NUMBERS = 192  # rows this short need a code for each number, or too many would be scored again
_ADDED = 1 << 16  # coded rows copied from the matrix at a time
_TRAINED_PER_CENTRE = 50  # rows that k-means sees for each centre
_ITERATIONS = 8
_SELECTED = 4  # factor of rows looked at with a small selection, whose rows may be far from a query
# Queries searched together in lists. From 20 on FAISS compares them with the centres by BLAS, whose
# last bits depend on the size of the batch.
_TOGETHER = 16


class RowSelection(NamedTuple):
    """Some rows, to which a search is confined: their numbers, int64, ascending, and a bit for each row.

    Bits are packed as uint8, the lowest bit first, and say whether a row is selected.
    """

    rows: np.ndarray
    bits: np.ndarray

    def reach(self, depth: int) -> int:
        """The number of rows to find so that, on average, ``depth`` of them are selected."""
        return -(-depth * 8 * len(self.bits) // len(self.rows))


class RowFinder(Protocol):
    """Finds rows with high inner products with a query.

    Attributes:
        n_rows: The number of rows that it can find.
        oversampling: The number of rows to find for each entity that is wanted.
        bounds: Whether its scores limit what a row that was not found may score.
        finds_entities: Whether a row found stands for other rows of its entity, which must be scored.
    """

    n_rows: int
    oversampling: int
    bounds: bool
    finds_entities: bool

    def fits(self, matrix: VectorMatrix) -> bool:
        """Whether it is an index of these rows, as far as its sizes say."""

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Approximately the best rows of each query, best first, and as if it were the only query.

        Args:
            queries: float32 [n, dim].
            depth: The number of rows to find for a query.
            effort: How many times as many rows as usual to look at.
            selection: The rows that may be found; None for all.

        Returns:
            Approximate scores, float32 [n, depth], and rows, int64 [n, depth]; -inf and -1 for no row.
        """


class FastScan:
    """A ``RowFinder`` that looks at the codes of all rows, which it keeps in memory."""

    bounds = False

    def __init__(self, codes: Any, oversampling: int) -> None:
        """Takes an open FAISS index."""
        faiss = imported_faiss()
        self.oversampling = oversampling
        self.n_rows: int = codes.ntotal
        self.finds_entities = isinstance(codes, faiss.IndexIDMap)
        self._codes = codes

    @classmethod
    def opened(cls, path: Path, settings: dict[str, Any]) -> FastScan:
        """The index of a file that a KB's settings describe; PelError if it is unreadable."""
        return cls(_read(path, 0), settings["oversampling"])

    def fits(self, matrix: VectorMatrix) -> bool:
        """Whether it is an index of these rows, as far as its sizes and numbers say."""
        faiss, scanned, n_coded = imported_faiss(), self._codes, len(matrix)
        if self.finds_entities:
            coded = faiss.vector_to_array(scanned.id_map)
            if len(coded) and not 0 <= coded.min() <= coded.max() < len(matrix):
                return False
            scanned, n_coded = faiss.downcast_index(scanned.index), len(coded)
        if not isinstance(scanned, faiss.IndexPQFastScan) or matrix.dim % max(scanned.M, 1):
            return False
        sizes = self.n_rows, scanned.ntotal, scanned.d
        return sizes == (n_coded, n_coded, matrix.dim)

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See ``RowFinder``. It finds fewer if too few of a selection are among the best of all rows."""
        reach = selection.reach(depth) if selection else depth
        scores, rows = self._codes.search(queries, reach)
        if selection is not None:  # FAISS's fast scan takes no selection
            bits = selection.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1
            kept = (bits == 1) & (rows >= 0)
            order = np.argsort(~kept, axis=1, kind="stable")[:, :depth]
            rows = np.take_along_axis(np.where(kept, rows, -1), order, axis=1)
            scores = np.take_along_axis(scores, order, axis=1)
        scores[rows < 0] = -np.inf
        return scores, rows


class InvertedFile:
    """A ``RowFinder`` that looks at the lists whose centres are nearest to a query."""

    bounds = True
    finds_entities = False
    oversampling = 4  # finding more rows costs little, a second search costs much

    def __init__(self, ivf: Any, probes: int) -> None:
        """Takes an open FAISS inverted file, and the number of lists that a search looks at."""
        self.n_rows: int = ivf.ntotal
        self._ivf = ivf
        self._probes = probes

    @classmethod
    def opened(cls, path: Path, settings: dict[str, Any]) -> InvertedFile:
        """The index of a file that a KB's settings describe, mapped; PelError if it is unreadable."""
        return cls(mapped_inverted_file(path), settings["probes"])

    def fits(self, matrix: VectorMatrix) -> bool:
        """Whether it is an index of these rows, as far as its sizes say."""
        return (self.n_rows, self._ivf.d) == (len(matrix), matrix.dim)

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See ``RowFinder``. The fewer rows are selected, the more of them are looked at."""
        faiss, probes, chosen = imported_faiss(), effort * self._probes, {}
        if selection is not None:
            share = len(selection.rows) / self.n_rows
            probes = int(probes * (1 + (_SELECTED - 1) * (1 - share)) / share) + 1
            chosen = {"sel": faiss.IDSelectorBitmap(selection.bits)}
        parameters = faiss.SearchParametersIVF(nprobe=min(probes, self._ivf.nlist), **chosen)
        scores = np.empty((len(queries), depth), dtype=np.float32)
        rows = np.empty((len(queries), depth), dtype=np.int64)
        for some in (slice(i, i + _TOGETHER) for i in range(0, len(queries), _TOGETHER)):
            scores[some], rows[some] = self._ivf.search(queries[some], depth, params=parameters)
        scores[rows < 0] = -np.inf
        return scores, rows


def mapped_inverted_file(path: Path) -> Any:
    """A FAISS inverted file whose lists stay in the file, mapped; PelError if it is unreadable."""
    faiss = imported_faiss()
    ivf = _read(path, faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    if not isinstance(ivf, faiss.IndexIVF):
        raise damaged(path, "cannot be read")
    # The operating system reads ahead anyway, and FAISS's threads would not survive a fork.
    faiss.downcast_InvertedLists(ivf.invlists).prefetch_nthread = 0
    return ivf


def _read(path: Path, flags: int) -> Any:
    try:
        return imported_faiss().read_index(str(path), flags)
    except (RuntimeError, MemoryError) as error:  # of a damaged file
        raise damaged(path, "cannot be read") from error


def built_fast_scan(matrix: VectorMatrix, coded: np.ndarray | None = None) -> Any:
    """A FAISS index of the codes of the coded rows, int64, or of all. The same rows give the same."""
    faiss, dim = imported_faiss(), matrix.dim
    # A code for 2 numbers needs an even count, and many numbers or rows that share codes: then more
    # rows are found than entities are wanted, so coarse codes do.
    halved = dim % 2 == 0 and (coded is not None or dim > _FEW_NUMBERS)
    pieces = dim // 2 if halved else dim
    codes = faiss.IndexPQFastScan(dim, pieces, 4, faiss.METRIC_INNER_PRODUCT)
    codes.pq.cp.seed = _SEED
    codes.pq.cp.min_points_per_centroid = 1  # no warning
    sample = _sample(matrix, _TRAINED)
    codes.train(np.resize(sample, (max(len(sample), 16), dim)))
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

    They are chosen greedily, entity by entity. The next one is always the first of the rows that are
    similar to the largest number of rows without a representative.

    Args:
        matrix: The rows.
        row_entities: The entity of each row, ascending, [n_rows].
        alike: The least cosine of similar rows.

    Returns:
        int64, ascending.
    """
    bounds = np.flatnonzero(np.diff(row_entities, prepend=-1, append=-1))
    chosen = np.zeros(len(matrix), dtype=bool)
    for start, stop in pairwise(bounds):
        rows = matrix.take(np.arange(start, stop))
        units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        near = units @ units.T >= alike
        np.fill_diagonal(near, True)
        left = np.ones(len(rows), dtype=bool)
        while left.any():
            best = (near & left & left[:, None]).sum(axis=1).argmax()
            chosen[start + best] = True
            left &= ~near[best]
    return np.flatnonzero(chosen)


def fitting_kind(n_rows: int, dim: int, memory: int) -> str:
    """The kind of an inverted file with the most bits that fits into this memory, in bytes.

    If none fits, it is the one with the fewest bits: that is better than an error after hours of
    encoding, as the codes are mapped.
    """
    for kind, bits in CODE_BITS.items():
        if n_rows * (dim * bits // 8 + _ID) <= memory:
            return kind
    return kind


def built_inverted_file(matrix: VectorMatrix, kind: str) -> Any:
    """A FAISS inverted file of all rows, with this kind of code. The same rows give the same file."""
    faiss = imported_faiss()
    n_lists = min(len(matrix), int(2 * len(matrix) ** 0.5))
    sample = _sample(matrix, n_lists * _TRAINED_PER_CENTRE)
    kmeans = faiss.Kmeans(
        matrix.dim,
        n_lists,
        niter=_ITERATIONS,
        spherical=True,
        seed=_SEED,
        min_points_per_centroid=1,
        max_points_per_centroid=_TRAINED_PER_CENTRE,
    )
    kmeans.train(sample)
    ivf = faiss.index_factory(matrix.dim, f"IVF{n_lists},{kind}", faiss.METRIC_INNER_PRODUCT)
    ivf.quantizer.add(kmeans.centroids)
    ivf.train(sample)
    for _, block in matrix.blocks():
        ivf.add(block)
    return ivf


def _sample(matrix: VectorMatrix, most: int) -> np.ndarray:
    random, n = np.random.default_rng(_SEED), min(len(matrix), most)
    return matrix.take(np.sort(random.choice(len(matrix), n, replace=False)))
