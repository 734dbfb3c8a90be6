"""The proxies that training and its evaluations see: a part of the KB, as the weights are now."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Optional, Sequence

import numpy as np

from ..inputs import EntityText
from ..kb.index import Candidates, VectorIndex
from ..kb.knowledge_base import KnowledgeBase
from ..kb.selection import Only, selected
from ..proxies import encode_rows, proxy_texts
from ..retriever import Retriever
from .counts import Counts
from .negatives import Row

logger = logging.getLogger(__name__)


class ProxyPool:
    """Chooses proxies of the KB for training, and searches some of them.

    kb, retriever: where entities come from and what encodes them.
    row_kind: see ``proxies``.
    searched: the numbers of the entities that the index holds. To encode a large KB at every
        evaluation would take longer than the training, so the index may hold a part of it.
    name_dropout: each alias is hidden with this probability when an entity's text is made or a
        positive is chosen, lest the encoder learn to match strings alone.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        retriever: Retriever,
        row_kind: str,
        searched: np.ndarray,
        name_dropout: float,
    ):
        self.kb = kb
        self.retriever = retriever
        self.row_kind = row_kind
        self.searched = searched
        self.name_dropout = name_dropout
        self.counts = Counts()
        self._drawn = kb.numbers()
        self._index: Optional[VectorIndex] = None
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

    def search(self, vectors: np.ndarray, k: int, only: Optional[Only] = None) -> Candidates:
        """The k best of the searched entities, under the present weights.

        only: what they are confined to.
        """
        self.refresh_every(1)
        if only is None:
            return self._index.search(vectors, k)
        allowed = np.zeros(self.searched.max(initial=0) + 1, dtype=bool)
        allowed[np.intersect1d(self.searched, selected(self.kb, only))] = True
        return self._index.search(vectors, k, allowed)

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        """n rows: an entity drawn uniformly from the whole KB, then one of its rows."""
        numbers = self._drawn[rng.integers(len(self._drawn), size=n)].tolist()
        counts = [self._row_count(number) for number in numbers]
        return [Row(e, int(rng.integers(count))) for e, count in zip(numbers, counts)]

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

    def positive_row(self, mention: str, entity: int, rng: np.random.Generator) -> Row:
        """The entity's row whose name is most like the mention, among those not hidden."""
        if self.row_kind == "entity":
            return Row(entity, 0)
        names = self.kb.entities([entity])[0].names
        hidden = rng.random(len(names)) < self.name_dropout
        hidden[0] = False
        likeness = [-1.0 if h else _likeness(mention, name) for h, name in zip(hidden, names)]
        return Row(entity, int(np.argmax(likeness)))

    def texts(self, rows: Sequence[Row], rng: np.random.Generator) -> list[EntityText]:
        """The texts of the rows; with one row an entity, some of its aliases are hidden."""
        texts = []
        for row, entity in zip(rows, self.kb.entities([row.entity for row in rows])):
            if self.row_kind == "entity" and self.name_dropout:
                shown = rng.random(len(entity.aliases)) >= self.name_dropout
                entity = entity._replace(aliases=tuple(np.array(entity.aliases)[shown]))
            texts.append(proxy_texts(entity, self.row_kind)[row.name])
        return texts

    def _row_count(self, number: int) -> int:
        return 1 if self.row_kind == "entity" else len(self.kb.entities([number])[0].names)

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


def _likeness(a: str, b: str) -> float:
    """Jaccard index of the character trigrams of two names, case ignored."""
    x, y = _trigrams(a), _trigrams(b)
    return len(x & y) / len(x | y)


@lru_cache(maxsize=20_000)
def _trigrams(name: str) -> frozenset[str]:
    padded = f"  {name.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))
