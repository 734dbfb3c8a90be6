"""An approximate index for millions of rows: FAISS's inverted file (IVF).

Rows stand in lists around centres, each as a short code (FAISS's ``IndexIVFScalarQuantizer``). A
search looks at the lists whose centres are nearest to the query. The codes stay in their file,
mapped into memory.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...system.damaged_files import damaged
from .faiss_library import imported_faiss
from .matrix import VectorMatrix, unreadable
from .row_finder import RowSelection

CODE_BITS = {"SQ8": 8, "SQ4": 4}  # bits for each number of a vector, by kind of code
INDEX_MEMORY = 2 << 30  # bytes that the codes of an index may take by default
_ID = 8  # bytes that FAISS adds to a code
_SEED = 0
_TRAINED_PER_CENTRE = 50  # rows that k-means sees for each centre
_ITERATIONS = 8
_SELECTED = 4  # factor of rows looked at with a small selection, whose rows may be far from a query
_TOGETHER = (
    16  # queries searched together; from 20 on FAISS compares them with the centres by BLAS,
)
# whose last bits depend on the size of the batch


class InvertedFile:
    """A ``RowFinder`` that looks at the lists whose centres are nearest to a query."""

    bounds = True
    finds_entities = False
    oversampling = 4  # finding more rows costs little, a second search costs much

    def __init__(self, ivf: Any, probes: int, path: Path = Path()) -> None:
        """Takes an index that is open.

        Args:
            ivf: A FAISS inverted file.
            probes: The number of lists that a search looks at.
            path: Its file, for messages.
        """
        self._ivf = ivf
        self._probes = probes
        self._path = path

    @classmethod
    def opened(cls, path: Path, settings: dict[str, Any]) -> InvertedFile:
        """The index of a file that a KB's settings describe, mapped; PelError if it is unreadable."""
        return cls(mapped_inverted_file(path), settings["probes"], path)

    def fits(self, matrix: VectorMatrix) -> bool:
        """Whether it is an index of these rows, as far as its sizes say."""
        return (self._ivf.ntotal, self._ivf.d) == (len(matrix), matrix.dim)

    def suits(self, depth: int, selection: RowSelection | None) -> bool:
        """Always: it is built only for KBs where it is faster."""
        return True

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Approximately the best rows of each query; see ``RowFinder.nearest``."""
        batches = [queries[i : i + _TOGETHER] for i in range(0, len(queries), _TOGETHER)]
        found = [self._nearest(batch, depth, effort, selection) for batch in batches]
        scores, rows = (np.concatenate(arrays) for arrays in zip(*found))
        scores[rows < 0] = -np.inf
        return scores, rows

    def sees_all(self, effort: int, selection: RowSelection | None) -> bool:
        """Whether it looks at every row with this effort."""
        if selection is None:
            return effort * self._probes >= self._ivf.nlist
        return self._rows_seen(effort, selection) >= len(selection.rows)

    def list_sizes(self, rows: np.ndarray) -> np.ndarray:
        """The number of these rows in each list: int64 [n_lists]."""
        return np.bincount(self._row_lists[rows], minlength=self._ivf.nlist)

    @cached_property
    def _row_lists(self) -> np.ndarray:
        """The list of each row: int32 [n_rows]; PelError if the lists do not hold each row."""
        faiss, lists, n_rows = imported_faiss(), self._ivf.invlists, self._ivf.ntotal
        row_lists = np.full(n_rows, -1, dtype=np.int32)
        for number in range(self._ivf.nlist):
            if size := lists.list_size(number):
                rows = faiss.rev_swig_ptr(lists.get_ids(number), size)
                if not 0 <= rows.min() <= rows.max() < n_rows:
                    raise damaged(self._path, f"lists rows beyond its {n_rows}")
                row_lists[rows] = number
        if n_rows and row_lists.min() < 0:
            raise damaged(self._path, f"does not list each of its {n_rows} rows")
        return row_lists

    def _nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        faiss, n_lists = imported_faiss(), self._ivf.nlist
        if selection is None:
            probes = min(effort * self._probes, n_lists)
            parameters = faiss.SearchParametersIVF(nprobe=probes)
            return self._ivf.search(queries, depth, params=parameters)
        centre_scores, lists = self._ivf.quantizer.search(queries, n_lists)
        sizes = selection.list_sizes[lists]
        before = sizes.cumsum(axis=1) - sizes
        lists[(sizes == 0) | (before >= self._rows_seen(effort, selection))] = -1  # not looked at
        parameters = faiss.SearchParametersIVF(
            nprobe=n_lists, sel=faiss.IDSelectorBitmap(selection.bits)
        )
        scores = np.empty((len(queries), depth), dtype=np.float32)
        rows = np.empty((len(queries), depth), dtype=np.int64)
        # FAISS's Python method of this name takes no parameters.
        self._ivf.search_preassigned_c(
            len(queries),
            faiss.swig_ptr(queries),
            depth,
            faiss.swig_ptr(lists),
            faiss.swig_ptr(centre_scores),
            faiss.swig_ptr(scores),
            faiss.swig_ptr(rows),
            False,
            parameters,
        )
        return scores, rows

    def _rows_seen(self, effort: int, selection: RowSelection) -> float:
        """The number of rows of a selection to look at.

        For a selection of all rows it is the usual number. It grows to ``_SELECTED`` times that as
        the selection gets smaller.
        """
        missing = 1 - len(selection.rows) / self._ivf.ntotal
        usual = effort * self._probes * self._ivf.ntotal / self._ivf.nlist
        return usual * (1 + (_SELECTED - 1) * missing)


def fitting_kind(n_rows: int, dim: int, memory: int) -> str:
    """The kind of code with the most bits that fits into this memory, in bytes.

    If none fits, it is the kind with the fewest bits. The codes are mapped, so the system reads
    some from the file now and then, which is better than an error after hours of encoding.
    """
    fitting = (
        kind for kind, bits in CODE_BITS.items() if n_rows * (dim * bits // 8 + _ID) <= memory
    )
    return next(fitting, min(CODE_BITS, key=CODE_BITS.__getitem__))


def built_inverted_file(matrix: VectorMatrix, kind: str) -> Any:
    """A FAISS inverted file of all rows, with this kind of code. The same rows give the same file.

    It takes memory for the codes, and for a sample of the rows while k-means runs.
    """
    faiss = imported_faiss()
    random = np.random.default_rng(_SEED)
    n_lists = min(len(matrix), int(2 * len(matrix) ** 0.5))
    n_trained = min(len(matrix), n_lists * _TRAINED_PER_CENTRE)
    sample = matrix.take(np.sort(random.choice(len(matrix), n_trained, replace=False)))
    ivf = faiss.index_factory(matrix.dim, f"IVF{n_lists},{kind}", faiss.METRIC_INNER_PRODUCT)
    ivf.quantizer.add(_centres(sample, n_lists))
    ivf.train(sample)
    for _, block in matrix.blocks():
        ivf.add(block)
    return ivf


def _centres(sample: np.ndarray, n: int) -> np.ndarray:
    """The centres of n clusters of the sample, by spherical k-means: float32 [n, dim]."""
    kmeans = imported_faiss().Kmeans(
        sample.shape[1],
        n,
        niter=_ITERATIONS,
        spherical=True,
        seed=_SEED,
        min_points_per_centroid=1,
        max_points_per_centroid=_TRAINED_PER_CENTRE,
    )
    kmeans.train(sample)
    return kmeans.centroids


def mapped_inverted_file(path: Path) -> Any:
    """A FAISS inverted file whose lists stay in the file, mapped; PelError if it is unreadable."""
    faiss = imported_faiss()
    try:
        ivf = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except (RuntimeError, MemoryError) as error:
        raise unreadable(path) from error
    if not isinstance(ivf, faiss.IndexIVF):
        raise unreadable(path)
    # The operating system reads ahead anyway, and FAISS's threads would not survive a fork.
    faiss.downcast_InvertedLists(ivf.invlists).prefetch_nthread = 0
    return ivf
