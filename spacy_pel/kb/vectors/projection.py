"""Axes that vectors are stored in, fewer than these have numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .matrix import VectorMatrix, mapped

_SEED = 0


class Projection:
    """Orthonormal axes, float32 [dim, width]: of vectors of ``dim`` numbers ``width`` are stored.

    The inner product of a query, in these axes, with a stored row is that of the whole query with
    the lifted row.
    """

    def __init__(self, axes: np.ndarray) -> None:
        self.axes = axes
        self.dim, self.width = axes.shape

    @classmethod
    def opened(cls, path: Path) -> Projection:
        """The projection of a file; PelError if it cannot be read."""
        return cls(np.array(mapped(path)))

    def rows(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors [n, dim] as they are stored: float32 [n, width], each as long as it was."""
        rows = vectors @ self.axes
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return rows * (np.linalg.norm(vectors, axis=1, keepdims=True) / lengths)

    def lifted(self, rows: np.ndarray) -> np.ndarray:
        """Stored rows [n, width] among whole vectors: float32 [n, dim]."""
        return rows @ self.axes.T

    def queries(self, vectors: np.ndarray) -> np.ndarray:
        """Queries [n, dim] in these axes, float32 [n, width]. Each is computed by itself, so that
        the others do not count in its last bits."""
        shape = len(vectors), self.width
        return np.array([vector @ self.axes for vector in vectors], np.float32).reshape(shape)


def principal_projection(matrix: VectorMatrix, width: int) -> tuple[Projection, float]:
    """Axes that rows keep most of their squared length in, and the share that they keep.

    They span what the first eigenvectors of the rows' second moments span. These moments are not
    centred: it is inner products that are to stay as they are, and no other axes change those of
    the rows less. They are turned at random, always alike, so that each number of a stored row has
    as much of it: codes are as fine for one as for the other.
    """
    moments = np.zeros((matrix.dim, matrix.dim))
    for _, block in matrix.blocks():
        moments += block.T @ block
    values, vectors = np.linalg.eigh(moments)
    share = values[::-1][:width].sum() / values.sum()
    random = np.random.default_rng(_SEED).standard_normal((width, width))
    axes = vectors[:, ::-1][:, :width] @ np.linalg.qr(random)[0]
    return Projection(np.ascontiguousarray(axes, dtype=np.float32)), float(share)
