"""Which rows of the KB stand for entities in training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..kb.knowledge_base import KnowledgeBase, SearchFilter
from ..kb.vectors.index import Candidates
from ..reading.entity_texts import EntityText
from ..reading.proxies import SINGLE_ROWS, proxy_texts
from .index import EncodedIndex, GoldMentions, Row, StoredRows

# The most records of entities that are kept in memory: reading them anew is 7 % of a step of the demo.
KEPT_RECORDS = 20_000


class Pool:
    """Chooses rows of the KB for training, and searches some of them for evaluations.

    Hard negatives are mined among the rows of ``mined``, and evaluations search ``searched``, which
    has the gold entities of dev: training must not know them. Both may hold a part of a large KB,
    because encoding all of it again and again would take longer than the training.

    Args:
        kb: the knowledge base.
        row_kind: what a row stands for; see ``reading.proxies``.
        name_dropout: the probability that an alias is hidden when a positive is chosen, or a text
            is made. It keeps the encoder from learning nothing but to match strings.
        mined: what hard negatives are mined among.
        searched: what ``search`` finds; it may be ``mined``. None: ``search`` is never called.
        mentions: the training mentions, which are encoded when the mined entities are.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        row_kind: str,
        name_dropout: float,
        mined: EncodedIndex | StoredRows,
        searched: EncodedIndex | None = None,
        mentions: GoldMentions | None = None,
    ):
        self.kb = kb
        self.row_kind = row_kind
        self.name_dropout = name_dropout
        self.mined = mined
        self.searched = searched
        self.mentions = mentions
        self._entities = kb.numbers()
        self._indexes = {mined, searched, mentions} - {None}
        self._record = lru_cache(maxsize=KEPT_RECORDS)(lambda number: kb.entities([number])[0])

    @property
    def encoded_rows(self) -> int:
        return sum(index.encoded_rows for index in self._indexes)

    def note_update(self) -> None:
        """Tell the pool that the weights have changed."""
        for index in self._indexes:
            index.age += 1

    def refresh_every(self, steps: int) -> None:
        """Encode what is mined, and mentions, if they are ``steps`` updates old or never were encoded."""
        self.mined.refresh(steps)
        if self.mentions is not None:
            self.mentions.refresh(steps)

    def bring_up_to_date(self) -> bool:
        """Encode the mined rows again if they were and the weights have changed: whether they were."""
        if self.mined.is_encoded:
            self.refresh_every(1)
        return self.mined.is_encoded

    def restore(self, has_index: bool, encoded_rows: int) -> None:
        """Go on as the pool of a checkpoint, whose ``bring_up_to_date`` returned ``has_index``."""
        if has_index:
            self.refresh_every(1)
        self.mined.encoded_rows += encoded_rows - self.encoded_rows

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        """The k best searched entities, or ``only`` some of them, under the present weights."""
        # A checkpoint, which follows an evaluation, does this too. So negatives are the same with
        # and without checkpoints, and whether there are two indexes or one.
        self.bring_up_to_date()
        self.searched.refresh(1, known=self.mined)
        numbers, allowed = self.searched.numbers, None
        if only is not None:
            allowed = np.zeros(numbers.max(initial=0) + 1, dtype=bool)
            allowed[np.intersect1d(numbers, self.kb.matching(only))] = True
        return self.searched.searchable.search(vectors, k, allowed)

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        """Draw n rows: first an entity, uniformly from the whole KB, then one of its rows."""
        entities = self._entities[rng.integers(len(self._entities), size=n)].tolist()
        counts = [1] * n
        if self.row_kind not in SINGLE_ROWS:
            counts = [len(self._record(entity).names) for entity in entities]
        return [Row(entity, int(rng.integers(count))) for entity, count in zip(entities, counts)]

    def positive_rows(
        self, surfaces: Sequence[str], entities: Sequence[int], rng: np.random.Generator
    ) -> list[Row]:
        """The row of each mention's gold entity whose name is most like the words of the mention.

        Some aliases are hidden; canonical names never are.
        """
        if self.row_kind in SINGLE_ROWS:
            return [Row(entity, 0) for entity in entities]
        rows = []
        for number, surface in zip(entities, surfaces):
            names = self._record(number).names
            hidden = rng.random(len(names)) < self.name_dropout
            hidden[0] = False
            likeness = [
                -1.0 if is_hidden else _likeness(surface, name)
                for is_hidden, name in zip(hidden, names)
            ]
            rows.append(Row(number, int(np.argmax(likeness))))
        return rows

    def texts(self, rows: Sequence[Row], rng: np.random.Generator) -> list[EntityText]:
        """The texts of the rows. Where an entity has one row, some of its aliases are hidden."""
        texts = []
        for row in rows:
            entity = self._record(row.entity)
            if self.row_kind == "entity" and self.name_dropout:
                shown = rng.random(len(entity.aliases)) >= self.name_dropout
                entity = entity._replace(aliases=tuple(np.array(entity.aliases)[shown]))
            texts.append(proxy_texts(entity, self.row_kind)[row.name])
        return texts


def _likeness(a: str, b: str) -> float:
    """Jaccard index of the character trigrams of two names, ignoring case."""
    x, y = _trigrams(a), _trigrams(b)
    return len(x & y) / len(x | y)


@lru_cache(maxsize=20_000)
def _trigrams(name: str) -> frozenset[str]:
    padded = f"  {name.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))
