"""FAISS as this package uses it: above all, approximate indexes, which find rows near a query.

``VectorIndex`` scores the rows that a finder returns again, from the vectors themselves. So a finder
decides which rows are looked at, and never what they score.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...errors import PelError, damaged
from .matrix import VectorMatrix

FAST_SCAN_KIND = "PQ4"
_SELECTED = 4  # factor of rows looked at with a small selection, whose rows may be far from a query
# Queries searched together in lists. From 20 on FAISS compares them with the centres by BLAS, whose
# last bits depend on the size of the batch.
_TOGETHER = 16


def imported_faiss() -> ModuleType:
    """The module faiss; PelError if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise PelError(
            "FAISS is not installed",
            'run: pip install "spacy-pel[cpu]"  (or "spacy-pel[gpu]" with a GPU)',
        ) from error
    return faiss


def has_gpu() -> bool:
    """Whether FAISS has a GPU to search on."""
    faiss = imported_faiss()
    return hasattr(faiss, "pairwise_distance_gpu") and faiss.get_num_gpus() > 0


def all_products(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The inner products of all queries with all rows, float32; on a GPU if FAISS has one."""
    if not has_gpu():  # the BLAS in FAISS's packages takes five to seven times as long as numpy's
        return queries @ rows.T
    faiss, metric = imported_faiss(), imported_faiss().METRIC_INNER_PRODUCT
    return faiss.pairwise_distance_gpu(_gpu_resources(), queries, rows, metric=metric)


@cache
def _gpu_resources() -> object:
    return imported_faiss().StandardGpuResources()


class RowSelection(NamedTuple):
    """Some rows, to which a search is confined."""

    rows: np.ndarray  # their numbers, int64, ascending
    bits: (
        np.ndarray
    )  # of all rows, whether they are selected: packed as uint8, the lowest bit first

    def reach(self, depth: int) -> int:
        """The number of rows to find so that, on average, ``depth`` of them are selected."""
        return -(-depth * 8 * len(self.bits) // len(self.rows))


class FastScan:
    """Finds rows by 4-bit codes (``IndexPQFastScan``), which it keeps in memory.

    FAISS looks at the codes of all rows, with tables that stay in registers: a third of the work of
    exact search. Rows of one entity may be very similar, such as those of "lung cancers" and "cancers,
    lung". Then one may have a code for all of them (``IndexIDMap``): the index finds the entity, and all
    of its rows are scored. ``oversampling`` is the number of rows to find for each entity that is wanted.
    """

    def __init__(self, codes: Any, oversampling: int) -> None:
        self.oversampling = oversampling
        self.n_rows: int = codes.ntotal
        self.finds_entities = isinstance(codes, imported_faiss().IndexIDMap)
        self._codes = codes

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> np.ndarray:
        """Approximately the best rows of each query, best first: int64 [n, depth]; -1 for no row.

        There are fewer if too few of a selection are among the best of all rows. ``effort`` is how many
        times as many lists as usual an inverted file looks at.
        """
        _, rows = self._codes.search(queries, selection.reach(depth) if selection else depth)
        if selection is None:
            return rows
        # FAISS's fast scan takes no selection
        bits = selection.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1
        rows = np.where((bits == 1) & (rows >= 0), rows, -1)
        order = np.argsort(rows < 0, axis=1, kind="stable")[:, :depth]
        return np.take_along_axis(rows, order, axis=1)


class InvertedFile:
    """Finds rows in lists around centres (``IndexIVFScalarQuantizer``), for more than two million rows.

    A search looks at the ``probes`` nearest lists. The codes stay in their file, mapped into memory.
    """

    finds_entities = False
    oversampling = 4  # finding more rows costs little, a second search costs much

    def __init__(self, ivf: Any, probes: int) -> None:
        self.n_rows: int = ivf.ntotal
        self._ivf = ivf
        self._probes = probes

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> np.ndarray:
        """As of ``FastScan``. The fewer rows are selected, the more of them are looked at."""
        faiss, probes, chosen = imported_faiss(), effort * self._probes, {}
        if selection is not None:
            share = len(selection.rows) / self.n_rows
            probes = int(probes * (1 + (_SELECTED - 1) * (1 - share)) / share) + 1
            chosen = {"sel": faiss.IDSelectorBitmap(selection.bits)}
        parameters = faiss.SearchParametersIVF(nprobe=min(probes, self._ivf.nlist), **chosen)
        rows = np.empty((len(queries), depth), dtype=np.int64)
        for some in (slice(i, i + _TOGETHER) for i in range(0, len(queries), _TOGETHER)):
            _, rows[some] = self._ivf.search(queries[some], depth, params=parameters)
        return rows


RowFinder = FastScan | InvertedFile


def opened_finder(path: Path, found_by: dict[str, Any], matrix: VectorMatrix) -> RowFinder:
    """The finder of a file that a KB's settings describe; PelError unless it is one of these rows."""
    faiss, scans = imported_faiss(), found_by["kind"] == FAST_SCAN_KIND
    try:
        flags = 0 if scans else faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY
        index = faiss.read_index(str(path), flags)
    except (RuntimeError, MemoryError) as error:
        raise damaged(path, "cannot be read") from error
    coded, n_rows = index, len(matrix)
    if scans and isinstance(index, faiss.IndexIDMap):
        coded, n_rows = faiss.downcast_index(index.index), index.id_map.size()
    fits = isinstance(coded, faiss.IndexPQFastScan if scans else faiss.IndexIVF)
    fits = fits and (index.ntotal, coded.ntotal, coded.d) == (n_rows, n_rows, matrix.dim)
    if not fits or scans and matrix.dim % max(coded.M, 1):
        raise damaged(path, f"is no index of {len(matrix)} vectors")
    if scans:
        return FastScan(index, found_by["oversampling"])
    # The operating system reads ahead anyway, and FAISS's threads would not survive a fork.
    faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
    return InvertedFile(index, found_by["probes"])
