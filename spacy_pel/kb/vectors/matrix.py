"""Vectors in files: the rows of a matrix in ``.npy`` files, mapped into memory, read as float32."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from ...errors import PelError
from ...system.damaged_files import damaged

DTYPES = ("float32", "float16", "int8")
# What numpy raises for a damaged header, which is a literal of Python.
_HEADER_ERRORS = (
    ValueError, TypeError, KeyError, EOFError, SyntaxError, OverflowError, MemoryError,
    RecursionError, TokenError,
)  # fmt: skip
_BLOCK = 1 << 23  # numbers in a block: 32 MB as float32
_SMALL = 1 << 30  # bytes; a file up to this size may stay in memory as a whole
_RESIDENT = 1 << 27  # bytes of a larger file that may stay in memory after they were read


class VectorMatrix:
    """Rows of vectors: float32, float16, or int8 with a scale for each row.

    Only what is read from a file comes into memory. Little of a large file stays there: blocks are
    mapped and then released, and single rows are read without mapping, because Linux may map 2 MB
    for each. It may be used after a fork, and by several threads.

    Attributes:
        path: The file of the rows; None if they were never in a file.
    """

    def __init__(self, values: np.ndarray, scales: np.ndarray | None = None) -> None:
        """Takes arrays.

        Args:
            values: [n_rows, dim].
            scales: Factors of the rows, float32 [n_rows].
        """
        if values.ndim != 2:
            raise ValueError(f"vectors of shape {values.shape}; expected [n_rows, dim]")
        self._values = values
        self._scales = scales
        self._touched = 0
        self.path: Path | None = None
        self._descriptor: int | None = None  # of a large file

    @classmethod
    def opened(cls, path: Path, scales: np.ndarray | None = None) -> VectorMatrix:
        """The matrix of a file; PelError if it cannot be read or holds something else."""
        values = mapped(path)
        if values.ndim != 2 or values.dtype.name not in DTYPES:
            raise damaged(path, "does not hold rows of vectors")
        if scales is not None and (scales.shape != (len(values),) or not np.isfinite(scales).all()):
            raise damaged(path, "has no scale for each of its rows")
        matrix = cls(values, scales)
        matrix.path = path
        if matrix._values.nbytes > _SMALL and hasattr(os, "pread"):
            matrix._descriptor = _opened(path)
            weakref.finalize(matrix, os.close, matrix._descriptor)
        return matrix

    def __len__(self) -> int:
        return len(self._values)

    @property
    def dim(self) -> int:
        """The length of a row."""
        return self._values.shape[1]

    @property
    def in_memory(self) -> np.ndarray | None:
        """All rows without a copy, float32 [n_rows, dim], to be read only.

        None if the rows have another type, or are in a large file, whose pages must be released.
        """
        values = self._values
        small = self._descriptor is None and values.flags.c_contiguous
        return values if small and values.dtype == np.float32 else None

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The rows with these numbers: float32 [n, dim], a copy; PelError if one is not finite."""
        values = self._values[rows] if self._descriptor is None else self._read(rows)
        vectors = self._as_float32(values, rows)
        self.check_finite(vectors)
        return vectors

    def check_finite(self, computed: np.ndarray) -> None:
        """Checks what was read or computed from rows.

        Raises:
            PelError: It holds NaN or infinity, so a row does, or a row is far too long.
        """
        # The sum is the fastest test: NaN and infinity stay what they are.
        with np.errstate(over="ignore", invalid="ignore"):
            total = computed.sum(dtype=np.float32)
        if not np.isfinite(total) and not np.isfinite(computed).all():
            if self.path is None:
                raise PelError("the vectors hold NaN or infinity", "check the weights")
            raise damaged(self.path, "holds NaN or infinity")

    def block(self, start: int, stop: int) -> np.ndarray:
        """The rows from start up to but not including stop: float32, read-only; mapped if in a file."""
        vectors = self._as_float32(self._values[start:stop], slice(start, stop))
        if not np.may_share_memory(vectors, self._values):
            self._release(self._values[start:stop].nbytes)
        return vectors

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """All rows: pairs of the number of a block's first row, and the block."""
        step = max(1, _BLOCK // self.dim)
        for start in range(0, len(self), step):
            block = self.block(start, start + step)
            yield start, block
            self._release(block.nbytes)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the file, in the type they are stored in: [n, dim]."""
        first, size = self._values.offset, self._values.strides[0]
        places = (first + size * rows.astype(np.int64)).tolist()
        content = bytearray().join([os.pread(self._descriptor, size, place) for place in places])
        return np.frombuffer(content, self._values.dtype).reshape(len(rows), self.dim)

    def _as_float32(self, values: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        vectors = np.asarray(values, dtype=np.float32)
        if self._scales is not None:
            vectors *= self._scales[rows, None]
        return vectors

    def _release(self, touched: int) -> None:
        """Counts bytes as touched, and releases the file's pages when there are many.

        Mapped pages count as this process's memory. Released pages stay in the operating system's
        cache until something else needs the memory.
        """
        file = self._values.base
        if self._values.nbytes <= _SMALL or not isinstance(file, mmap.mmap):
            return
        self._touched += touched
        if self._touched > _RESIDENT and hasattr(mmap, "MADV_DONTNEED"):
            self._touched = 0
            file.madvise(mmap.MADV_DONTNEED)


class MatrixWriter:
    """Writes the file of a ``VectorMatrix`` piece by piece. It is valid once it is closed.

    Attributes:
        path: The file.
        n_rows: The number of rows so far.
        scales: Of int8, the scales of the rows, piece by piece; empty for other types.
    """

    def __init__(self, path: Path, dim: int, dtype: str) -> None:
        """Creates the file, for vectors of ``dim`` numbers of one of ``DTYPES``."""
        self.path = path
        self.n_rows = 0
        self.scales: list[np.ndarray] = []
        self._dtype = np.dtype(dtype)
        self._dim = dim
        self._file = open(path, "xb")
        self._write_header()

    def append(self, vectors: np.ndarray) -> None:
        """Appends finite float32 vectors [n, dim]; PelError for one that float16 cannot hold."""
        if self._dtype == np.int8:
            vectors, scales = quantized(vectors)
            self.scales.append(scales)
        elif self._dtype == np.float16:
            check_length(vectors)
        self._file.write(np.ascontiguousarray(vectors, dtype=self._dtype).data)
        self.n_rows += len(vectors)

    def close(self) -> None:
        """Writes the number of rows into the header, and closes the file."""
        self._file.seek(0)
        self._write_header()  # numpy leaves room in the header for any number of rows
        self._file.close()

    def _write_header(self) -> None:
        header: dict[str, Any] = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.n_rows, self._dim),
        }
        np.lib.format.write_array_header_1_0(self._file, header)


def as_stored(vectors: np.ndarray, dtype: str) -> np.ndarray:
    """Vectors as they are read again after they were stored with one of ``DTYPES``: float32."""
    if dtype == "int8":
        values, scales = quantized(vectors)
        return values * scales[:, None]
    if dtype == "float16":
        check_length(vectors)
    return vectors.astype(dtype).astype(np.float32)


def check_length(vectors: np.ndarray) -> None:
    """Raises PelError if float16 cannot hold a number of the vectors."""
    if np.abs(vectors).max(initial=0) > 65504:
        raise PelError("a vector is too long for float16", "use float32, or vectors of length 1")


def quantized(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors as int8 with a scale for each.

    A scale has 16 significant bits, so that its product with an int8 is exact in float32, and
    quantizing the product gives the same again.

    Args:
        vectors: float32 [n, dim].

    Returns:
        int8 [n, dim] and scales, float32 [n]. Their product is close to the vectors.
    """
    scales = np.abs(vectors).max(axis=1, initial=0) / np.float32(127)
    scales = ((scales.view(np.uint32) + 255) & ~np.uint32(255)).view(np.float32)
    divisors = np.where(scales > 0, scales, np.float32(1))
    values = np.rint(vectors / divisors[:, None])
    return values.astype(np.int8), scales


def mapped(path: Path) -> np.ndarray:
    """The array of a ``.npy`` file, mapped into memory, read-only.

    Raises:
        PelError: The file cannot be read, or its header does not describe all of it.
    """
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, *_HEADER_ERRORS) as error:
        raise unreadable(path) from error
    size = array.offset + array.nbytes
    if not (array.flags.c_contiguous and array.dtype.isnative and size == path.stat().st_size):
        raise unreadable(path)
    return array


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise unreadable(path) from error


def unreadable(path: Path) -> PelError:
    """The error for a file of vectors that cannot be read."""
    return damaged(path, "cannot be read")
