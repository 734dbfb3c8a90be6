"""An index of rows under the weights of some updates ago."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..kb.vectors.index import Candidates, VectorIndex
from .negatives import Row

logger = logging.getLogger(__name__)

# From numbers, int64, to the vectors of their rows, float32 [b, d], chunk by chunk, each with the
# number that each row is of, int64 [b].
Encode = Callable[[np.ndarray], Iterable[tuple[np.ndarray, np.ndarray]]]


class EncodedIndex:
    """Rows in memory that are encoded, and encoded again when the weights have changed.

    Args:
        numbers: what has rows, by number, int64 [n], ascending.
        encode: encodes the rows.
        what: what has rows, and which, for the log. Indexes of the same may copy from each other.

    Attributes:
        encoded_rows: the number of rows that were encoded so far.
    """

    def __init__(self, numbers: np.ndarray, encode: Encode, what: str):
        self.numbers = numbers
        self.what = what
        self.encoded_rows = 0
        self._encode = encode
        self._age = 0  # in updates
        self._vectors: np.ndarray | None = None
        self._owners = np.empty(0, dtype=np.int64)
        self._searchable: VectorIndex | None = None

    @property
    def is_encoded(self) -> bool:
        """Whether the rows were ever encoded."""
        return self._vectors is not None

    @property
    def vectors(self) -> np.ndarray:
        """The rows as they were last encoded, or are now, by their numbers: float32 [r, d]."""
        if self._vectors is None:
            self._renew(None)
        return self._vectors

    def rows_of(self, number: int) -> np.ndarray:
        """The rows of a number as they were last encoded, float32 [r, d]."""
        vectors = self.vectors
        return vectors[slice(*np.searchsorted(self._owners, [number, number + 1]))]

    def note_update(self) -> None:
        """Tell the index that the weights have changed."""
        self._age += 1

    def refresh(self, updates: int, known: EncodedIndex | None = None) -> EncodedIndex:
        """Encode the rows if they never were, or are that many updates old or older.

        Args:
            updates: the age, at least one.
            known: an index from which rows may be copied.
        """
        if self._vectors is None or self._age >= updates:
            self._renew(known)
        return self

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Candidates:
        """The k best numbers of each query; see ``VectorIndex.search``."""
        return self._index().search(vectors, k, allowed)

    def best_rows(
        self, vectors: np.ndarray, left_out: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """The best row of each of the best numbers.

        Args:
            vectors: the queries, float32 [m, d].
            left_out: the numbers that a query must not find.
            n: how many numbers to find for each query.

        Returns:
            For each query up to n rows of distinct numbers, best first. There are fewer if the
            nearest 16 n rows are of fewer.
        """
        # The names of one entity crowd together, so more than n rows are read.
        nearest = self._index().nearest_rows(vectors, 16 * n)
        owners = self._owners[nearest]
        firsts = np.searchsorted(self._owners, owners)
        found = []
        for row, of, first, unwanted in zip(nearest, owners, firsts, left_out):
            best: dict[int, int] = {}
            for number, name in zip(of.tolist(), (row - first).tolist()):
                if number not in unwanted and len(best) < n:
                    best.setdefault(number, name)
            found.append([Row(*each) for each in best.items()])
        return found

    def _index(self) -> VectorIndex:
        vectors = self.vectors
        if self._searchable is None:
            self._searchable = VectorIndex.from_vectors(vectors, self._owners)
        return self._searchable

    def _renew(self, known: EncodedIndex | None) -> None:
        """Encode the rows under the present weights, and copy what ``known`` has of them."""
        self._vectors = self._searchable = None  # their memory is needed for the next
        chunks, numbers = [], self.numbers
        fits = known is not None and known.what == self.what
        if fits and known.is_encoded and known._age == 0:
            is_wanted = np.isin(known._owners, numbers)
            chunks.append((known.vectors[is_wanted], known._owners[is_wanted]))
            numbers = np.setdiff1d(numbers, known.numbers)
        logger.info("encoding %d %s", len(numbers), self.what)
        for vectors, owners in self._encode(numbers):
            self.encoded_rows += len(owners)
            chunks.append((vectors, owners))
        vectors, owners = (np.concatenate(arrays) for arrays in zip(*chunks))
        order = np.argsort(owners, kind="stable")
        self._vectors, self._owners, self._age = vectors[order], owners[order], 0
