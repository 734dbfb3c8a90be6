"""The proxies that training and its evaluations see: a part of the KB under the present weights."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.search_filter import SearchFilter, filtered_numbers
from ..kb.vectors.index import Candidates
from ..linking.retriever import Retriever
from ..reading.entity_texts import EntityText
from ..reading.proxies import encode_rows, proxy_texts
from .negatives import Row
from .row_index import RowIndex
from .row_pool import RowPool

logger = logging.getLogger(__name__)


class ProxyPool(RowPool):
    """Chooses proxies of the KB for training, and searches some of them.

    Args:
        kb, row_kind: see ``RowPool``.
        retriever: encodes the entities.
        searched: the numbers of the entities that the index holds. The index may hold a part of a
            large KB, because encoding all of it at every evaluation would take longer than the
            training.
        name_dropout: see ``RowPool``. Aliases are also hidden when an entity's text is made.

    Attributes:
        encoded_rows: the number of rows that were encoded for the index so far.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        retriever: Retriever,
        row_kind: str,
        searched: np.ndarray,
        name_dropout: float,
    ):
        super().__init__(kb, row_kind, name_dropout)
        self.retriever = retriever
        self.searched = searched
        self.encoded_rows = 0
        self._index: RowIndex | None = None
        self._age = 0  # of the index, in updates

    def note_update(self) -> None:
        """Tell the pool that the weights have changed."""
        self._age += 1

    def refresh_every(self, steps: int) -> None:
        """Encode the index if it is ``steps`` updates old or older, or was never encoded."""
        self._index_younger_than(steps)

    def bring_up_to_date(self) -> bool:
        """Encode the index again if the weights have changed since.

        Returns:
            Whether there is an index. One that was never encoded is not encoded now.
        """
        if self._index is not None:
            self.refresh_every(1)
        return self._index is not None

    def restore(self, has_index: bool, encoded_rows: int) -> None:
        """Go on as the pool of a checkpoint, under the weights of that time.

        Args:
            has_index: what ``bring_up_to_date`` returned then.
            encoded_rows: the number of rows that were encoded until then.
        """
        if has_index:
            self.refresh_every(1)
        self.encoded_rows = encoded_rows

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        """The k best of the searched entities, under the present weights.

        Args:
            vectors: the queries, float32 [n, d].
            k: the number of entities for each query.
            only: the entities that may be found; None for all.
        """
        index = self._index_younger_than(1)
        if only is None:
            return index.search(vectors, k)
        allowed = np.zeros(self.searched.max(initial=0) + 1, dtype=bool)
        allowed[np.intersect1d(self.searched, filtered_numbers(self.kb, only))] = True
        return index.search(vectors, k, allowed)

    def hard_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """Search the index for hard negatives, as it was last encoded.

        An index that was never encoded is encoded now.

        Args:
            vectors: the mentions, float32 [m, d].
            golds: the gold entities of each mention, which are left out.
            n: the number of entities for each mention.

        Returns:
            For each mention the n searched entities that score highest, best first. Each is given
            by the row that scores highest.
        """
        if n == 0:
            return [[] for _ in golds]
        index = self._encoded_index() if self._index is None else self._index
        return index.best_rows(vectors, golds, n)

    def texts(self, rows: Sequence[Row], rng: np.random.Generator) -> list[EntityText]:
        """The texts of the rows. Where an entity has one row, some of its aliases are hidden."""
        texts = []
        for row, entity in zip(rows, self.kb.entities([row.entity for row in rows])):
            if self.row_kind == "entity" and self.name_dropout:
                shown = rng.random(len(entity.aliases)) >= self.name_dropout
                entity = entity._replace(aliases=tuple(np.array(entity.aliases)[shown]))
            texts.append(proxy_texts(entity, self.row_kind)[row.name])
        return texts

    def _index_younger_than(self, steps: int) -> RowIndex:
        """The index, encoded again if it is that many updates old or older."""
        if self._index is None or self._age >= steps:
            return self._encoded_index()
        return self._index

    def _encoded_index(self) -> RowIndex:
        """The index, encoded now."""
        logger.info("encoding %d of the KB's %d entities", len(self.searched), len(self.kb))
        chunks = list(
            encode_rows(self.kb, self.searched, self.row_kind, self.retriever.entity_vectors)
        )
        vectors, owners = (np.concatenate(arrays) for arrays in zip(*chunks))
        self.encoded_rows += len(owners)
        self._index, self._age = RowIndex(vectors, owners), 0
        return self._index
