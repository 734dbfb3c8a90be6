"""What mentions are trained against: rows of the KB that stand for entities, and other mentions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase, SearchFilter
from ..kb.vectors.index import Candidates, VectorIndex
from ..linking.retriever import Retriever
from ..text.entity_texts import CHUNK, SINGLE_ROWS, EntityText, encode_rows, proxy_texts
from ..text.mention_inputs import GoldMention

logger = logging.getLogger(__name__)

# The most records of entities that are kept in memory: reading them anew is 7 % of a step of the demo.
KEPT_RECORDS = 20_000

# From numbers, int64, to the vectors of their rows, float32 [b, d], chunk by chunk, each with the
# number that each row is of, int64 [b].
Encode = Callable[[np.ndarray], Iterable[tuple[np.ndarray, np.ndarray]]]


class Row(NamedTuple):
    """One proxy."""

    entity: int  # its number
    name: int  # the position of the name that makes the row; 0 where an entity has one row


class EncodedIndex:
    """Rows in memory that ``refresh`` encodes, and encodes again when the weights have changed.

    Args:
        numbers: what has rows, by number, int64 [n], ascending.
        encode: encodes the rows.
        what: what has rows, and which, for the log. Indexes of the same may copy from each other.

    Attributes:
        vectors: the rows as they were last encoded, by their numbers: float32 [r, d].
    """

    vectors: np.ndarray | None = None

    def __init__(self, numbers: np.ndarray, encode: Encode, what: str):
        self.numbers = numbers
        self.what = what
        self.age = 0  # in updates
        self._encode = encode
        self._owners = np.empty(0, dtype=np.int64)
        self._searchable: VectorIndex | None = None

    def rows_of(self, number: int) -> np.ndarray:
        """The rows of a number, float32 [r, d]."""
        return self.vectors[slice(*np.searchsorted(self._owners, [number, number + 1]))]

    def refresh(self, updates: int, known: EncodedIndex | StoredRows | None = None) -> None:
        """Encode the rows if they never were, or are so old.

        ``known`` may have some to be copied.
        """
        if self.vectors is not None and self.age < updates:
            return
        self.vectors = self._searchable = None  # their memory is needed for the next
        chunks, numbers = [], self.numbers
        fresh = isinstance(known, EncodedIndex) and known.vectors is not None and known.age == 0
        if fresh and known.what == self.what:
            is_wanted = np.isin(known._owners, numbers)
            chunks.append((known.vectors[is_wanted], known._owners[is_wanted]))
            numbers = np.setdiff1d(numbers, known.numbers)
        logger.info("encoding %d %s", len(numbers), self.what)
        chunks += self._encode(numbers)
        vectors, owners = map(np.concatenate, zip(*chunks))
        order = np.argsort(owners, kind="stable")
        self.vectors, self._owners, self.age = vectors[order], owners[order], 0

    @property
    def searchable(self) -> VectorIndex:
        """The rows, to be searched."""
        if self._searchable is None:
            self._searchable = VectorIndex.from_vectors(self.vectors, self._owners)
        return self._searchable

    def best_rows(
        self, vectors: np.ndarray, left_out: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """The best row of each of the n best numbers, best first, for each query, float32 [m, d].

        There are fewer if the nearest 16 n rows are of fewer. ``left_out``: what a query must not find.
        """
        # The names of one entity crowd together, so more than n rows are read.
        nearest = self.searchable.best_rows(vectors, 16 * n)[1]
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


def entity_index(
    kb: KnowledgeBase, retriever: Retriever, row_kind: str, numbers: np.ndarray
) -> EncodedIndex:
    """An index of the rows of some entities, int64, ascending, which a retriever encodes."""
    encode = partial(encode_rows, kb, row_kind=row_kind, encode=retriever.entity_vectors)
    return EncodedIndex(numbers, encode, f"of the KB's {len(kb)} entities ({row_kind})")


class GoldMentions(EncodedIndex):
    """All training mentions, each with one row, and the gold cluster of each entity.

    Repeats of a name of an entity in a document are one mention. They are numbered from 0, in the
    order of the corpus.
    """

    def __init__(self, mentions: Sequence[GoldMention], retriever: Retriever):
        first: dict[tuple, GoldMention] = {}
        for mention in mentions:
            first.setdefault(_key(mention), mention)
        self.mentions = list(first.values())

        def encode(numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for start in range(0, len(numbers), CHUNK):
                own = numbers[start : start + CHUNK]
                yield retriever.mention_vectors([self.mentions[i].context for i in own]), own

        super().__init__(np.arange(len(first)), encode, "training mentions")
        self._numbers = {key: number for number, key in enumerate(first)}
        clusters: dict[int, list[int]] = {}
        for number, mention in enumerate(self.mentions):
            for entity in mention.golds:
                clusters.setdefault(entity, []).append(number)
        # The numbers of the mentions that may mean an entity, int64, ascending.
        self.clusters = {entity: np.array(own) for entity, own in clusters.items()}

    def numbers_of(self, mentions: Sequence[GoldMention]) -> list[int]:
        """The numbers of mentions of a batch. Raises PelError if one is no training mention."""
        numbers = [self._numbers.get(_key(mention)) for mention in mentions]
        if None in numbers:
            raise PelError(
                f'"{mentions[numbers.index(None)].surface}" is none of the {len(self.mentions):,} '
                "mentions that training began with, so it has no gold cluster",
                "give a corpus that is the same each time it is read, with max_epochs = 0 or more",
            )
        return numbers

    def nearest_others(self, numbers: Sequence[int], n: int) -> list[list[int]]:
        """For each mention up to n mentions of other entities, best first; equal ones by number."""
        scores = self.vectors[numbers] @ self.vectors.T
        for row, number in zip(scores, numbers):
            for entity in self.mentions[number].golds:
                row[self.clusters[entity]] = -np.inf
        return [_best(row, n) for row in scores]


def _key(mention: GoldMention) -> tuple[str, str, tuple[int, ...]]:
    """Mentions that have all of this in common are one."""
    return mention.written_in, mention.surface.lower(), mention.golds


def _best(scores: np.ndarray, n: int) -> list[int]:
    """The places of the n highest scores, without -inf, best first; equal scores by place."""
    n = min(n, len(scores))
    if n == 0:
        return []
    least = np.partition(scores, len(scores) - n)[len(scores) - n]
    places = np.flatnonzero((scores >= least) & (scores > -np.inf))
    return places[np.argsort(-scores[places], kind="stable")][:n].tolist()


class StoredRows:
    """The rows of an embedded KB, for training that does not change them: in place of an index."""

    def __init__(self, kb: KnowledgeBase):
        self.kb = kb

    def best_rows(
        self, vectors: np.ndarray, left_out: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """The best row of each of the best entities; see ``EncodedIndex.best_rows``."""
        found = self.kb.search(vectors, n + max(map(len, left_out), default=0)).numbers
        wrong = [
            [entity for entity in row if entity >= 0 and entity not in gold][:n]
            for row, gold in zip(found.tolist(), left_out)
        ]
        stored = self._of_entities({entity for entities in wrong for entity in entities})
        return [
            [Row(entity, int(np.argmax(stored[entity] @ vector))) for entity in entities]
            for vector, entities in zip(vectors, wrong)
        ]

    def of(self, rows: Sequence[Row]) -> np.ndarray:
        """The vectors of the rows, float32 [n, dim]. Raises PelError if an entity has none."""
        stored = self._of_entities({row.entity for row in rows})
        return np.stack([stored[row.entity][row.name] for row in rows])

    def _of_entities(self, entities: set[int]) -> dict[int, np.ndarray]:
        """The vectors of each entity, float32 [rows, dim]."""
        numbers = np.array(sorted(entities), dtype=np.int64)
        vectors, owners = self.kb.rows(numbers)
        counts = np.bincount(owners, minlength=len(numbers))
        if not counts.all():
            id = self.kb.labels(numbers[counts == 0][:1])[0][0]
            raise PelError(
                f"{self.kb.path}: {id} has no vectors",
                f"run: python -m spacy pel kb embed {self.kb.path} PIPELINE",
            )
        return dict(zip(numbers.tolist(), np.split(vectors, np.cumsum(counts)[:-1])))


class Pool:
    """Chooses rows of the KB for training, and searches some of them for evaluations.

    Hard negatives are mined among the rows of ``mined``, and evaluations search ``searched``, which
    has the gold entities of dev: training must not know them. Both may hold a part of a large KB,
    because encoding all of it again and again would take longer than the training.

    Args:
        kb: the knowledge base.
        row_kind: what a row stands for; see ``text.entity_texts``.
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
        self._trained = [i for i in (mined, mentions) if isinstance(i, EncodedIndex)]
        self._record = lru_cache(maxsize=KEPT_RECORDS)(lambda number: kb.entities([number])[0])

    def note_update(self) -> None:
        """Tell the pool that the weights have changed."""
        for index in {*self._trained, self.searched} - {None}:
            index.age += 1

    def refresh_every(self, steps: int) -> None:
        """Encode what is mined, and mentions, if they are ``steps`` updates old or never were encoded."""
        for index in self._trained:
            index.refresh(steps)

    def bring_up_to_date(self) -> bool:
        """Encode the mined rows again if they were and the weights have changed: whether they were."""
        was_encoded = any(index.vectors is not None for index in self._trained)
        if was_encoded:
            self.refresh_every(1)
        return was_encoded

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
