"""An index of some entities of the KB, under the weights that are being trained."""

from __future__ import annotations

import logging

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..linking.retriever import Retriever
from ..reading.proxies import encode_rows
from .aged_index import AgedIndex
from .row_index import RowIndex

logger = logging.getLogger(__name__)


class ProxyIndex(AgedIndex[RowIndex]):
    """The rows of some entities.

    Args:
        kb: gives the texts of the entities.
        retriever: encodes them.
        row_kind: what a row stands for; see ``reading.proxies``.
        numbers: the numbers of the entities, int64 [n], ascending.
    """

    def __init__(self, kb: KnowledgeBase, retriever: Retriever, row_kind: str, numbers: np.ndarray):
        super().__init__()
        self.kb = kb
        self.retriever = retriever
        self.row_kind = row_kind
        self.numbers = numbers
        self._rows: tuple[np.ndarray, np.ndarray] | None = None  # of the index: vectors, owners

    def rows_of(self, entity: int) -> np.ndarray:
        """The rows of an entity as they were last encoded, float32 [r, d]."""
        self.as_it_is()
        vectors, owners = self._rows
        return vectors[slice(*np.searchsorted(owners, [entity, entity + 1]))]

    def _encoded_now(self, known: ProxyIndex | None) -> RowIndex:
        self._rows = None  # its memory is needed for the next
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
        return RowIndex(*self._rows)
