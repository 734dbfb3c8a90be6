"""The proxies that training and its evaluations see: a part of the KB, as the weights are now."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.search_filter import SearchFilter, filtered_numbers
from ..kb.vectors.index import Candidates, VectorIndex
from ..linking.retriever import Retriever
from ..reading.inputs import EntityText
from ..reading.proxies import encode_rows, proxy_texts
from .counts import Counts
from .negatives import Row
from .row_pool import RowPool

logger = logging.getLogger(__name__)


class ProxyPool(RowPool):
    """Chooses proxies of the KB for training, and searches some of them.

    retriever: what encodes the entities.
    searched: the numbers of the entities that the index holds. To encode a large KB at every
        evaluation would take longer than the training, so the index may hold a part of it.
    kb, row_kind, name_dropout: see ``RowPool``; an alias is hidden when an entity's text is made,
        too.
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
        self.counts = Counts()
        self._index: VectorIndex | None = None
        self._first_row = np.empty(0, dtype=np.int64)
        self._age = 0

    def note_update(self) -> None:
        """Tell the pool that the weights have changed."""
        self._age += 1

    def refresh_every(self, steps: int) -> None:
        """Encode the index again if it is ``steps`` updates old or more, or not there yet."""
        if self._index is None or self._age >= steps:
            self._refresh()

    def bring_up_to_date(self) -> bool:
        """Encode the index under the present weights, if there is one and it is older."""
        if self._index is not None:
            self.refresh_every(1)
        return self._index is not None

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        """The k best of the searched entities, under the present weights.

        only: what they are confined to.
        """
        self.refresh_every(1)
        if only is None:
            return self._index.search(vectors, k)
        allowed = np.zeros(self.searched.max(initial=0) + 1, dtype=bool)
        allowed[np.intersect1d(self.searched, filtered_numbers(self.kb, only))] = True
        return self._index.search(vectors, k, allowed)

    def hard_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """For each mention, the best row of the n best searched entities that are not its gold."""
        if n == 0:
            return [[] for _ in golds]
        # Names of one entity crowd together, so look deeper than n rows.
        nearest = self._index.nearest_rows(vectors, 16 * n)
        entities = self._index.row_entities[nearest]
        return [
            self._distinct(rows, owners, gold, n)
            for rows, owners, gold in zip(nearest, entities, golds)
        ]

    def texts(self, rows: Sequence[Row], rng: np.random.Generator) -> list[EntityText]:
        """The texts of the rows; with one row an entity, some of its aliases are hidden."""
        texts = []
        for row, entity in zip(rows, self.kb.entities([row.entity for row in rows])):
            if self.row_kind == "entity" and self.name_dropout:
                shown = rng.random(len(entity.aliases)) >= self.name_dropout
                entity = entity._replace(aliases=tuple(np.array(entity.aliases)[shown]))
            texts.append(proxy_texts(entity, self.row_kind)[row.name])
        return texts

    def _refresh(self) -> None:
        logger.info("encoding %d of the KB's %d entities", len(self.searched), len(self.kb))
        chunks = list(
            encode_rows(self.kb, self.searched, self.row_kind, self.retriever.entity_vectors)
        )
        vectors, owners = (np.concatenate(parts) for parts in zip(*chunks))
        self.counts.index_inputs += len(owners)
        self._index = VectorIndex.from_vectors(vectors, owners)
        # Rows of an entity stand together: its first one tells which of its names a row is.
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        self._first_row = np.repeat(starts, np.diff(starts, append=len(owners)))
        self._age = 0

    def _distinct(
        self, rows: np.ndarray, owners: np.ndarray, gold: frozenset[int], n: int
    ) -> list[Row]:
        best: dict[int, Row] = {}
        for row, owner in zip(rows.tolist(), owners.tolist()):
            if owner not in gold and owner not in best:
                best[owner] = Row(owner, row - int(self._first_row[row]))
                if len(best) == n:
                    break
        return list(best.values())
