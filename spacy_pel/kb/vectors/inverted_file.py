"""An approximate index: rows in lists around centres, each a short code, found without the matrix.

The codes, FAISS's ``IndexIVFScalarQuantizer``, stay in their file, mapped into memory. What they
find is scored again from the matrix, so they decide which rows are looked at and nothing else.
"""

from __future__ import annotations

import errno
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .exact import imported_faiss
from .matrix import VectorMatrix, unreadable

CODE_BITS = {"SQ8": 8, "SQ4": 4}  # bits a number of a vector
INDEX_MEMORY = 2 << 30  # bytes that an index is to take by default
_ID = 8  # bytes that FAISS adds to a code
_SEED = 0
_TRAINED_PER_CENTRE = 50  # rows that k-means sees for a centre
_ITERATIONS = 8
_SELECTED = 4  # times as many rows as without a selection, for few: they may be far from a query
_TOGETHER = 16  # queries; from 20 on FAISS compares them with centres by BLAS, whose last bits
# depend on the size of the batch


class RowSelection(NamedTuple):
    """Some of the rows of a matrix.

    rows: their numbers, int64, ascending. bits: a bit for each row there is, uint8, the lowest bit
    first. list_sizes: how many of them each list of an index holds, int64; None without an index.
    """

    rows: np.ndarray
    bits: np.ndarray
    list_sizes: np.ndarray | None


class InvertedFile:
    """Finds rows near to queries by the lists of the centres that are nearest to these.

    oversampling: how many rows are to be found for an entity wanted: depth costs little, a second
    search much. bounds: its scores are so near to the true ones that they tell what a row that was
    not found may score at most. finds_entities: the rows found stand for others, of the same
    entities.
    """

    bounds = True
    finds_entities = False
    oversampling = 4

    def __init__(self, ivf: Any, probes: int) -> None:
        """ivf: a FAISS inverted file. probes: how many lists are looked at in a search."""
        self._ivf = ivf
        self._probes = probes

    @classmethod
    def opened(cls, folder: Path, settings: dict[str, Any]) -> InvertedFile:
        """The index of a manifest's settings, mapped into memory; PelError if it is unreadable."""
        return cls(mapped_inverted_file(folder / settings["file"]), settings["probes"])

    def suits(self, depth: int, selection: RowSelection | None) -> bool:
        """Whether it finds so many rows quicker than they are found without it."""
        return True

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """About the best rows: scores, about right, float32, and numbers int64 [n, depth].

        Best first; -inf and -1 fill. effort: times as many rows as usual are looked at.
        """
        batches = [queries[i : i + _TOGETHER] for i in range(0, len(queries), _TOGETHER)]
        found = [self._nearest(batch, depth, effort, selection) for batch in batches]
        scores, rows = (np.concatenate(parts) for parts in zip(*found))
        scores[rows < 0] = -np.inf
        return scores, rows

    def sees_all(self, effort: int, selection: RowSelection | None) -> bool:
        """Whether every row is looked at with this effort."""
        if selection is None:
            return effort * self._probes >= self._ivf.nlist
        return self._rows_seen(effort, selection) >= len(selection.rows)

    def list_sizes(self, rows: np.ndarray) -> np.ndarray:
        """How many of the rows each list holds: int64 [n_lists]."""
        return np.bincount(self._row_lists[rows], minlength=self._ivf.nlist)

    @cached_property
    def _row_lists(self) -> np.ndarray:
        """The list of each row: int32 [n_rows]."""
        faiss, lists = imported_faiss(), self._ivf.invlists
        row_lists = np.empty(self._ivf.ntotal, dtype=np.int32)
        for number in range(self._ivf.nlist):
            if size := lists.list_size(number):
                row_lists[faiss.rev_swig_ptr(lists.get_ids(number), size)] = number
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
        """How many rows of a selection are looked at: as many as without one if it is of all rows,
        and more, the fewer it has."""
        missing = 1 - len(selection.rows) / self._ivf.ntotal
        usual = effort * self._probes * self._ivf.ntotal / self._ivf.nlist
        return usual * (1 + (_SELECTED - 1) * missing)


def fitting_kind(n_rows: int, dim: int, memory: int) -> str:
    """The most faithful kind of index that takes no more than memory, in bytes.

    The shortest if there is none: codes are mapped, and after hours of encoding an index that the
    system reads from its file now and then beats an error.
    """
    fitting = (
        kind for kind, bits in CODE_BITS.items() if n_rows * (dim * bits // 8 + _ID) <= memory
    )
    return next(fitting, min(CODE_BITS, key=CODE_BITS.__getitem__))


def built_inverted_file(matrix: VectorMatrix, kind: str) -> Any:
    """A FAISS inverted file of all rows, with codes of this kind: the same for the same rows.

    Holds the codes in memory, and a sample of the rows while it learns the centres.
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
    """Float32 [n, dim]: the centres of clusters of unit vectors."""
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
    """The FAISS inverted file of a file, its lists mapped; PelError if it cannot be read."""
    faiss = imported_faiss()
    try:
        ivf = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        raise unreadable(path) from error
    # The operating system reads ahead by itself, and threads would not outlive a fork.
    faiss.downcast_InvertedLists(ivf.invlists).prefetch_nthread = 0
    return ivf


def write_index(faiss_index: Any, path: Path) -> None:
    """Writes a FAISS index to a file; OSError if the disk is full."""
    try:
        imported_faiss().write_index(faiss_index, str(path))
    except RuntimeError as error:
        raise OSError(errno.ENOSPC, "the vectors could not be written whole") from error
