"""The interface of approximate search: what finds the rows near a query without looking at all.

``VectorIndex`` scores the rows that a finder returns again, from the vectors themselves. So a
finder decides which rows are looked at, and never what they score.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .matrix import VectorMatrix


class RowSelection(NamedTuple):
    """Some of the rows of a matrix, to which a search is confined.

    Attributes:
        rows: Their numbers, int64, ascending.
        bits: One bit for each row of the matrix, uint8, lowest bit first: whether it is selected.
        list_sizes: The number of selected rows in each list of an inverted file, int64; None if the
            finder has no lists.
    """

    rows: np.ndarray
    bits: np.ndarray
    list_sizes: np.ndarray | None


class RowFinder(Protocol):
    """Finds rows with high inner products with a query.

    Attributes:
        oversampling: The number of rows to find for each entity that is wanted.
        bounds: Whether its scores are so close to the true ones that they limit what a row that was
            not found may score.
        finds_entities: Whether a row that is found stands for other rows of its entity as well. All
            rows of that entity must then be scored.
    """

    oversampling: int
    bounds: bool

    @property
    def finds_entities(self) -> bool: ...

    def fits(self, matrix: VectorMatrix) -> bool:
        """Whether it is an index of these rows, as far as its sizes say."""

    def suits(self, depth: int, selection: RowSelection | None) -> bool:
        """Whether it finds this many rows faster than a search of all rows does."""

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Approximately the best rows of each query, best first.

        Args:
            queries: float32 [n, dim].
            depth: The number of rows to find for a query.
            effort: How many times as many rows as usual to look at.
            selection: The rows that may be found; None for all.

        Returns:
            Approximate scores, float32 [n, depth], and numbers of rows, int64 [n, depth]. Places
            without a row hold -inf and -1.
        """

    def sees_all(self, effort: int, selection: RowSelection | None) -> bool:
        """Whether it looks at every row with this effort."""

    def list_sizes(self, rows: np.ndarray) -> np.ndarray | None:
        """The number of these rows in each list, int64 [n_lists]; None if it has no lists."""
