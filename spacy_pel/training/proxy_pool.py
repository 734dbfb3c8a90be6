"""The proxies that training and its evaluations see: parts of the KB under the present weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.search_filter import SearchFilter, filtered_numbers
from ..kb.vectors.index import Candidates
from ..linking.retriever import Retriever
from ..reading.entity_texts import EntityText
from ..reading.proxies import proxy_texts
from .aged_index import AgedIndex
from .mention_index import MentionIndex
from .negatives import Row
from .proxy_index import ProxyIndex
from .row_pool import RowPool


class ProxyPool(RowPool):
    """Chooses proxies of the KB for training, and searches some of them for evaluations.

    It has two indexes: hard negatives are mined in one, evaluations search the other. Evaluations
    search the gold entities of dev, which training must not know. Both indexes may hold a part of a
    large KB, because encoding all of it again and again would take longer than the training. If
    both hold the same entities, they are one index.

    Args:
        kb, row_kind: see ``RowPool``.
        retriever: encodes the entities.
        mined: the numbers of the entities that hard negatives are mined among, int64, ascending.
        searched: the numbers of the entities that ``search`` finds, int64, ascending.
        name_dropout: see ``RowPool``. Aliases are also hidden when an entity's text is made.
        searched_row_kind: the row kind of what ``search`` finds; None: ``row_kind``.
        mentions: an index of the training mentions, which is encoded whenever the mined entities
            are; None: none.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        retriever: Retriever,
        row_kind: str,
        mined: np.ndarray,
        searched: np.ndarray,
        name_dropout: float,
        searched_row_kind: str | None = None,
        mentions: MentionIndex | None = None,
    ):
        super().__init__(kb, row_kind, name_dropout)
        self.retriever = retriever
        self.mentions = mentions
        self._mined = ProxyIndex(kb, retriever, row_kind, mined)
        self._searched = self._mined
        kind = searched_row_kind or row_kind
        if kind != row_kind or not np.array_equal(mined, searched):
            self._searched = ProxyIndex(kb, retriever, kind, searched)
        self._rows_before = 0  # encoded before the checkpoint that training goes on from

    @property
    def mined(self) -> np.ndarray:
        """The numbers of the entities that hard negatives are mined among."""
        return self._mined.numbers

    @property
    def searched(self) -> np.ndarray:
        """The numbers of the entities that ``search`` finds."""
        return self._searched.numbers

    @property
    def encoded_rows(self) -> int:
        """The number of rows that were encoded for the indexes so far."""
        return self._rows_before + sum(index.encoded_rows for index in self._indexes)

    @property
    def _indexes(self) -> set[AgedIndex]:
        return {self._mined, self._searched} | ({self.mentions} - {None})

    def note_update(self) -> None:
        """Tell the pool that the weights have changed."""
        for index in self._indexes:
            index.note_update()

    def refresh_every(self, steps: int) -> None:
        """Encode the mined index if it is ``steps`` updates old or older, or was never encoded.

        So is the index of mentions, if there is one.
        """
        self._mined.younger_than(steps)
        if self.mentions is not None:
            self.mentions.younger_than(steps)

    def bring_up_to_date(self) -> bool:
        """Encode the mined index again if the weights have changed since.

        Returns:
            Whether there is one. An index that was never encoded is not encoded now.
        """
        if self._mined.is_encoded:
            self.refresh_every(1)
        return self._mined.is_encoded

    def restore(self, has_index: bool, encoded_rows: int) -> None:
        """Go on as the pool of a checkpoint, under the weights of that time.

        Args:
            has_index: what ``bring_up_to_date`` returned then.
            encoded_rows: the number of rows that were encoded until then.
        """
        if has_index:
            self.refresh_every(1)
        self._rows_before += encoded_rows - self.encoded_rows

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        """The k best of the searched entities, under the present weights.

        Args:
            vectors: the queries, float32 [n, d].
            k: the number of entities for each query.
            only: the entities that may be found; None for all.
        """
        # A checkpoint, which follows an evaluation, does this too. So negatives are the same with
        # and without checkpoints, and whether there are two indexes or one.
        self.bring_up_to_date()
        index = self._searched.younger_than(1, known=self._mined)
        if only is None:
            return index.search(vectors, k)
        allowed = np.zeros(self.searched.max(initial=0) + 1, dtype=bool)
        allowed[np.intersect1d(self.searched, filtered_numbers(self.kb, only))] = True
        return index.search(vectors, k, allowed)

    def hard_rows(
        self, vectors: np.ndarray, golds: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """Mine hard negatives in the index, as it was last encoded.

        An index that was never encoded is encoded now.

        Args:
            vectors: the mentions, float32 [m, d].
            golds: the gold entities of each mention, which are left out.
            n: the number of entities for each mention.

        Returns:
            For each mention the n mined entities that score highest, best first. Each is given by
            the row that scores highest.
        """
        if n == 0:
            return [[] for _ in golds]
        return self._mined.as_it_is().best_rows(vectors, golds, n)

    def rows_of(self, entity: int) -> np.ndarray:
        """The rows of one of the mined entities as they were last encoded, float32 [r, d]."""
        return self._mined.rows_of(entity)

    def texts(self, rows: Sequence[Row], rng: np.random.Generator) -> list[EntityText]:
        """The texts of the rows. Where an entity has one row, some of its aliases are hidden."""
        texts = []
        for row, entity in zip(rows, self.kb.entities([row.entity for row in rows])):
            if self.row_kind == "entity" and self.name_dropout:
                shown = rng.random(len(entity.aliases)) >= self.name_dropout
                entity = entity._replace(aliases=tuple(np.array(entity.aliases)[shown]))
            texts.append(proxy_texts(entity, self.row_kind)[row.name])
        return texts
