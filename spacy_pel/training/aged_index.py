"""An index of vectors under the weights of some updates ago."""

from __future__ import annotations

from typing import Generic, TypeVar

Index = TypeVar("Index")


class AgedIndex(Generic[Index]):
    """Encodes an index, and encodes it again when the weights have changed.

    A subclass defines ``_encoded_now``, and counts the rows that it encodes.

    Attributes:
        encoded_rows: the number of rows that were encoded so far.
    """

    def __init__(self) -> None:
        self.encoded_rows = 0
        self._index: Index | None = None
        self._age = 0  # in updates

    @property
    def is_encoded(self) -> bool:
        """Whether the rows were ever encoded."""
        return self._index is not None

    def note_update(self) -> None:
        """Tell the index that the weights have changed."""
        self._age += 1

    def as_it_is(self) -> Index:
        """The index as it was last encoded. One that was never encoded is encoded now."""
        return self._renewed(None) if self._index is None else self._index

    def younger_than(self, updates: int, known: AgedIndex[Index] | None = None) -> Index:
        """The index, encoded again if it is that many updates old or older.

        Args:
            updates: the age, at least one.
            known: another index. The rows that it has under the present weights may be copied.
        """
        if self._index is None or self._age >= updates:
            return self._renewed(known)
        return self._index

    def _renewed(self, known: AgedIndex[Index] | None) -> Index:
        self._index = None  # its memory is needed for the next
        self._index, self._age = self._encoded_now(known), 0
        return self._index

    def _encoded_now(self, known: AgedIndex[Index] | None) -> Index:
        """The index under the present weights; known: see ``younger_than``."""
        raise NotImplementedError
