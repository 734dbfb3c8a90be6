"""Rows of vectors in memory-mapped ``.npy`` files, read as float32."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...errors import PelError, damaged

DTYPES = ("float32", "float16", "int8")
_BLOCK_SIZE = 1 << 23  # numbers in a block: 32 MB as float32
_BLOCK_ROWS = 1 << 14  # in a block of selected rows
_BATCH_SIZE = 1 << 18  # numbers of rows that are multiplied at a time
_SEED = 0


class VectorMatrix:
    """Rows of vectors: float32, float16, or int8 with a scale for each row, float32 [n_rows].

    A file is mapped into memory. Matrices are safe for forks and threads.
    """

    def __init__(
        self, values: np.ndarray, scales: np.ndarray | None = None, path: Path | None = None
    ) -> None:
        self.scales = scales
        self.path = path  # of the file, if the rows are in one
        self._values = np.asarray(values)
        self.dim: int = values.shape[1]  # the length of a row

    @classmethod
    def opened(cls, path: Path, scales: np.ndarray | None = None) -> VectorMatrix:
        """Open the matrix of a file; PelError if the file is damaged or holds something else."""
        values = mapped(path)
        if values.ndim != 2 or values.dtype.name not in DTYPES:
            raise damaged(path, "does not hold rows of vectors")
        if scales is not None and (scales.shape != (len(values),) or not np.isfinite(scales).all()):
            raise damaged(path, "has no scale for each of its rows")
        return cls(values, scales, path)

    def __len__(self) -> int:
        return len(self._values)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Copy the rows with these numbers: float32 [n, dim]; PelError if one is not finite."""
        vectors = self._floats(self._values.take(rows, axis=0), rows)  # a third faster than [rows]
        self.check_finite(vectors)
        return vectors

    def _floats(self, values: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        if self.scales is not None:
            values = values * self.scales[rows, None]
        return np.asarray(values, dtype=np.float32)

    def blocks(self, rows: np.ndarray | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of these rows, or of all: their numbers, and the rows, float32, read-only."""
        if rows is not None:
            for start in range(0, len(rows), _BLOCK_ROWS):
                numbers = rows[start : start + _BLOCK_ROWS]
                yield numbers, self.take(numbers)
            return
        step = max(1, _BLOCK_SIZE // self.dim)
        for start in range(0, len(self), step):
            block = slice(start, min(start + step, len(self)))
            yield np.arange(block.start, block.stop), self._floats(self._values[block], block)

    def inner_products(
        self, queries: np.ndarray, lines: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Return the inner products of pairs of a query and a row; PelError if one is not finite.

        The last bits of a matrix product depend on its size and on the position of a row, so equal vectors
        would not tie. Here each pair is summed on its own.
        """
        scores = np.empty(len(rows), dtype=np.float32)
        step = max(1, _BATCH_SIZE // self.dim)
        changes = 1 + np.flatnonzero(lines[1:] != lines[:-1])
        starts = {*changes.tolist(), *range(0, len(rows), step)}
        for start, stop in pairwise([*sorted(starts), len(rows)]):  # of the same query
            vectors = self._values.take(rows[start:stop], axis=0).astype(np.float32)
            np.einsum("ij,j->i", vectors, queries[lines[start]], out=scores[start:stop])
        if self.scales is not None:
            scores *= self.scales[rows]
        self.check_finite(scores)
        return scores

    def check_finite(self, computed: np.ndarray) -> None:
        """Raise PelError if values read or computed from rows hold NaN or infinity."""
        # The sum is the fastest test: NaN and infinity persist.
        with np.errstate(over="ignore", invalid="ignore"):
            total = computed.sum(dtype=np.float32)
        if not np.isfinite(total) and not np.isfinite(computed).all():
            if self.path is None:
                raise PelError("the vectors hold NaN or infinity", "check the weights")
            raise damaged(self.path, "holds NaN or infinity")


def written_matrix(path: Path, blocks: Iterable[np.ndarray], dim: int, dtype: str) -> VectorMatrix:
    """Write blocks of rows, finite float32 [n, dim], to a new file; errors as of ``coded``."""
    n_rows, scales = 0, list[np.ndarray]()
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))

    def write_header() -> None:
        file.seek(0)
        header = {"descr": descr, "fortran_order": False, "shape": (n_rows, dim)}
        np.lib.format.write_array_header_1_0(file, header)

    with path.open("xb") as file:
        write_header()
        for block in blocks:
            values, block_scales = coded(block, dtype)
            file.write(np.ascontiguousarray(values).data)
            if block_scales is not None:
                scales.append(block_scales)
            n_rows += len(values)
        write_header()  # numpy leaves room in the header for any number of rows
    return VectorMatrix.opened(path, np.concatenate(scales) if scales else None)


def coded(vectors: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Convert float32 vectors [n, dim] to one of ``DTYPES``.

    Returns:
        The values, and the scale of each vector, float32 [n]; None unless the type is int8. A scale has 16
        significant bits. Therefore, coding the product of value and scale again changes nothing.

    Raises:
        PelError: float16 cannot hold a vector.
    """
    if dtype != "int8":
        if dtype == "float16" and np.abs(vectors).max(initial=0) > 65504:
            remedy = "use float32, or vectors of length 1"
            raise PelError("a vector is too long for float16", remedy)
        return vectors.astype(dtype, copy=False), None
    scales = np.abs(vectors).max(axis=1, initial=0) / np.float32(127)
    scales = ((scales.view(np.uint32) + 255) & ~np.uint32(255)).view(np.float32)
    divisors = np.where(scales > 0, scales, np.float32(1))
    return np.rint(vectors / divisors[:, None]).astype(np.int8), scales


def mapped(path: Path) -> np.ndarray:
    """Map the array of a ``.npy`` file, read-only; PelError if the file is damaged."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # a damaged header, a Python literal, raises many kinds
        raise damaged(path, "cannot be read") from error
    size = array.offset + array.nbytes
    if not (array.flags.c_contiguous and array.dtype.isnative and size == path.stat().st_size):
        raise damaged(path, "cannot be read")
    return array


class Projection:
    """A projection onto orthonormal axes, float32 [dim, width].

    The inner product of a projected query and a stored row is that of the query and the row lifted by the
    transposed axes.
    """

    def __init__(self, axes: np.ndarray) -> None:
        self.axes = axes
        self.dim, self.width = axes.shape

    @classmethod
    def principal(cls, matrix: VectorMatrix, width: int) -> tuple[Projection, float]:
        """Return the projection that keeps most of the rows' squared length, and the share kept.

        The axes span the first eigenvectors of the rows' second moments. The rows are not centred, to keep
        inner products. The axes are rotated at random, so that all numbers of a stored row carry equal
        variance: codes quantize them equally finely.
        """
        moments = np.zeros((matrix.dim, matrix.dim))
        for _, block in matrix.blocks():
            moments += block.T @ block
        values, vectors = np.linalg.eigh(moments)
        share = values[::-1][:width].sum() / values.sum()
        random = np.random.default_rng(_SEED).standard_normal((width, width))
        axes = vectors[:, ::-1][:, :width] @ np.linalg.qr(random)[0]
        return cls(np.ascontiguousarray(axes, dtype=np.float32)), float(share)

    def projected_rows(self, vectors: np.ndarray) -> np.ndarray:
        """Project vectors [n, dim] to rows: float32 [n, width], scaled to the same lengths."""
        rows = vectors @ self.axes
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        projected: np.ndarray = rows * (np.linalg.norm(vectors, axis=1, keepdims=True) / lengths)
        return projected

    def projected_queries(self, vectors: np.ndarray) -> np.ndarray:
        """Project queries [n, dim] to float32 [n, width], one by one: last bits must not depend on n."""
        shape = len(vectors), self.width
        return np.array([vector @ self.axes for vector in vectors], np.float32).reshape(shape)
