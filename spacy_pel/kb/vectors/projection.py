"""A projection of vectors onto fewer axes, so that they can be stored in fewer numbers."""

from __future__ import annotations

import numpy as np

from .matrix import VectorMatrix

_SEED = 0


class Projection:
    """A projection of vectors of ``dim`` numbers onto ``width`` orthonormal axes.

    The inner product of a projected query with a stored row equals that of the whole query with
    the lifted row.

    Attributes:
        axes: float32 [dim, width], orthonormal columns.
        dim: The length of whole vectors.
        width: The length of stored rows.
    """

    def __init__(self, axes: np.ndarray) -> None:
        self.axes = axes
        self.dim, self.width = axes.shape

    def projected_rows(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors [n, dim] as they are stored: float32 [n, width], scaled to the same lengths."""
        rows = vectors @ self.axes
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return rows * (np.linalg.norm(vectors, axis=1, keepdims=True) / lengths)

    def lifted(self, rows: np.ndarray) -> np.ndarray:
        """Stored rows [n, width] as vectors of the original length: float32 [n, dim]."""
        return rows @ self.axes.T

    def projected_queries(self, vectors: np.ndarray) -> np.ndarray:
        """Queries [n, dim] projected onto the axes: float32 [n, width].

        Each is computed alone, so that its last bits do not depend on the others.
        """
        shape = len(vectors), self.width
        return np.array([vector @ self.axes for vector in vectors], np.float32).reshape(shape)


def principal_projection(matrix: VectorMatrix, width: int) -> tuple[Projection, float]:
    """The projection onto ``width`` axes that keeps the most of the rows' squared length.

    The axes span the first eigenvectors of the rows' second moments. The rows are not centred,
    because their inner products are to change as little as possible. Then the axes are rotated at
    random, always with the same seed, so that each number of a stored row carries equally much:
    codes quantize all numbers equally finely.

    Returns:
        The projection, and the share of the squared length that it keeps.
    """
    moments = np.zeros((matrix.dim, matrix.dim))
    for _, block in matrix.blocks():
        moments += block.T @ block
    values, vectors = np.linalg.eigh(moments)
    share = values[::-1][:width].sum() / values.sum()
    random = np.random.default_rng(_SEED).standard_normal((width, width))
    axes = vectors[:, ::-1][:, :width] @ np.linalg.qr(random)[0]
    return Projection(np.ascontiguousarray(axes, dtype=np.float32)), float(share)
