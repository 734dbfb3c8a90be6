"""An index of some entities of the KB, under the weights that are being trained."""

from __future__ import annotations

import logging

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..linking.retriever import Retriever
from ..reading.proxies import encode_rows
from .row_index import RowIndex

logger = logging.getLogger(__name__)


class ProxyIndex:
    """Encodes the rows of some entities, and encodes them again when the weights have changed.

    Args:
        kb: gives the texts of the entities.
        retriever: encodes them.
        row_kind: what a row stands for; see ``reading.proxies``.
        numbers: the numbers of the entities, int64 [n], ascending.

    Attributes:
        encoded_rows: the number of rows that were encoded so far.
    """

    def __init__(self, kb: KnowledgeBase, retriever: Retriever, row_kind: str, numbers: np.ndarray):
        self.kb = kb
        self.retriever = retriever
        self.row_kind = row_kind
        self.numbers = numbers
        self.encoded_rows = 0
        self._index: RowIndex | None = None
        self._rows: tuple[np.ndarray, np.ndarray] | None = None  # of the index: vectors, owners
        self._age = 0  # in updates

    @property
    def is_encoded(self) -> bool:
        """Whether the rows were ever encoded."""
        return self._index is not None

    def note_update(self) -> None:
        """Tell the index that the weights have changed."""
        self._age += 1

    def as_it_is(self) -> RowIndex:
        """The index as it was last encoded. One that was never encoded is encoded now."""
        return self._encoded_now(None) if self._index is None else self._index

    def younger_than(self, updates: int, known: ProxyIndex | None = None) -> RowIndex:
        """The index, encoded again if it is that many updates old or older.

        Args:
            updates: the age, at least one.
            known: another index. The rows that it has under the present weights are copied.
        """
        if self._index is None or self._age >= updates:
            return self._encoded_now(known)
        return self._index

    def _encoded_now(self, known: ProxyIndex | None) -> RowIndex:
        """The index, encoded now."""
        self._index = self._rows = None  # its memory is needed for the next
        chunks = []
        numbers = self.numbers
        fits = known is not None and known.row_kind == self.row_kind
        if fits and known._rows is not None and known._age == 0:
            vectors, owners = known._rows
            is_wanted = np.isin(owners, numbers)
            chunks.append((vectors[is_wanted], owners[is_wanted]))
            numbers = np.setdiff1d(numbers, known.numbers)
        logger.info("encoding %d of the KB's %d entities", len(numbers), len(self.kb))
        encode = self.retriever.entity_vectors
        for vectors, owners in encode_rows(self.kb, numbers, self.row_kind, encode):
            self.encoded_rows += len(owners)
            chunks.append((vectors, owners))
        vectors, owners = (np.concatenate(arrays) for arrays in zip(*chunks))
        order = np.argsort(owners, kind="stable")
        self._rows = vectors[order], owners[order]
        self._index, self._age = RowIndex(*self._rows), 0
        return self._index
