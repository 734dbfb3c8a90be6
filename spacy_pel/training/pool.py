"""The pool of negatives: rows of the KB, and other mentions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase, SearchFilter
from ..kb.vectors.index import Candidates, VectorIndex
from ..models.architectures import Retriever, entity_vectors
from ..text.entity_texts import CHUNK, SINGLE_ROWS, EntityText, encode_rows, proxy_texts
from ..text.mention_inputs import GoldMention

logger = logging.getLogger(__name__)

# The number of cached records of entities. Reading them again takes 7 % of a training step of the demo.
CACHE_SIZE = 20_000

# Encodes the rows of some numbers, int64, chunk by chunk: float32 [b, d], with the number of each row,
# int64 [b].
Encode = Callable[[np.ndarray], Iterable[tuple[np.ndarray, np.ndarray]]]


class Row(NamedTuple):
    """One proxy."""

    entity: int  # the number of its entity
    name: int  # the position of its name; 0 if the entity has one row


class EncodedIndex:
    """Rows in memory that are encoded again when the weights have changed.

    Args:
        numbers: The numbers of the items that have rows, int64 [n], ascending.
        encode: Encodes the rows.
        what: A description of the items for the log. Indexes with the same description may copy rows from
            each other.

    Attributes:
        vectors: The rows at the last refresh, sorted by number, float32 [r, d]; empty before the first.
        age: The number of updates since then.
    """

    def __init__(self, numbers: np.ndarray, encode: Encode, what: str):
        self.numbers = numbers
        self.what = what
        self.age = 0
        self.is_encoded = False
        self.vectors = np.empty((0, 0), dtype=np.float32)
        self._encode = encode
        self._owners = np.empty(0, dtype=np.int64)
        self._searchable: VectorIndex | None = None

    def rows_of(self, number: int) -> np.ndarray:
        """Return the rows of a number, float32 [r, d]."""
        return self.vectors[slice(*np.searchsorted(self._owners, [number, number + 1]))]

    def refresh(self, updates: int, known: EncodedIndex | StoredRows | None = None) -> None:
        """Encode rows that are ``updates`` updates old or older; copy those of a fresh index ``known``."""
        if self.is_encoded and self.age < updates:
            return
        # Free the memory for the new rows.
        self.vectors, self._searchable = self.vectors[:0], None
        chunks, numbers = [], self.numbers
        fresh = isinstance(known, EncodedIndex) and known.is_encoded and known.age == 0
        if fresh and isinstance(known, EncodedIndex) and known.what == self.what:
            is_wanted = np.isin(known._owners, numbers)
            chunks.append((known.vectors[is_wanted], known._owners[is_wanted]))
            numbers = np.setdiff1d(numbers, known.numbers)
        logger.info("encoding %d %s", len(numbers), self.what)
        chunks += self._encode(numbers)
        vectors, owners = map(np.concatenate, zip(*chunks))
        order = np.argsort(owners, kind="stable")
        self.vectors, self._owners, self.age = vectors[order], owners[order], 0
        self.is_encoded = True

    @property
    def searchable(self) -> VectorIndex:
        """Return a search index of the rows."""
        if self._searchable is None:
            self._searchable = VectorIndex.from_vectors(self.vectors, self._owners)
        return self._searchable

    def best_rows(
        self, vectors: np.ndarray, left_out: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """Return the best row of each of the n best numbers for each query, best first.

        There are fewer if the nearest 16 n rows belong to fewer numbers.

        Args:
            vectors: float32 [m, d], the queries.
            left_out: The numbers that each query must not return.
            n: The number of rows per query.
        """
        # The names of an entity lie close together, so more than n rows are searched.
        nearest = self.searchable.best_rows(vectors, 16 * n)[1]
        owners = self._owners[nearest]
        firsts = np.searchsorted(self._owners, owners)
        rows = []
        for row, of, first, unwanted in zip(nearest, owners, firsts, left_out):
            best: dict[int, int] = {}
            for number, name in zip(of.tolist(), (row - first).tolist()):
                if number not in unwanted and len(best) < n:
                    best.setdefault(number, name)
            rows.append([Row(number, name) for number, name in best.items()])
        return rows


def entity_index(
    kb: KnowledgeBase, retriever: Retriever, index_unit: str, numbers: np.ndarray
) -> EncodedIndex:
    """Return an index of the rows of some entities, int64, ascending, encoded by a retriever."""

    def encode(numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return encode_rows(kb, numbers, index_unit, partial(entity_vectors, retriever))

    return EncodedIndex(numbers, encode, f"of the KB's {len(kb)} entities ({index_unit})")


class GoldMentionIndex(EncodedIndex):
    """All training mentions, each with one row, and the gold cluster of each entity.

    Repetitions of a name in a document count as one mention. Mentions are numbered from 0 in the order of
    the corpus.
    """

    def __init__(self, mentions: Sequence[GoldMention], retriever: Retriever):
        first: dict[tuple[str, str, tuple[int, ...]], GoldMention] = {}
        for mention in mentions:
            first.setdefault(_key(mention), mention)
        self.mentions = list(first.values())

        def encode(numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for start in range(0, len(numbers), CHUNK):
                chunk = numbers[start : start + CHUNK]
                contexts = [self.mentions[i].context for i in chunk]
                yield retriever.predict(contexts), chunk

        super().__init__(np.arange(len(first)), encode, "training mentions")
        self._numbers = {key: number for number, key in enumerate(first)}
        clusters: dict[int, list[int]] = {}
        for number, mention in enumerate(self.mentions):
            for entity in mention.golds:
                clusters.setdefault(entity, []).append(number)
        # The numbers of each entity's mentions, int64, ascending.
        self.clusters = {entity: np.array(members) for entity, members in clusters.items()}

    def numbers_of(self, mentions: Sequence[GoldMention]) -> list[int]:
        """Return the numbers of the mentions of a batch; PelError if one is no training mention."""
        for mention in mentions:
            if _key(mention) not in self._numbers:
                raise PelError(
                    f'"{mention.surface}" is none of the {len(self.mentions):,} mentions at the start '
                    "of training, so it has no gold cluster",
                    "give a corpus that is the same at each reading, with max_epochs = 0 or more",
                )
        return [self._numbers[_key(mention)] for mention in mentions]

    def nearest_others(self, numbers: Sequence[int], n: int) -> list[list[int]]:
        """Return up to n mentions of other entities for each mention, best first, ties by number."""
        scores = self.vectors[numbers] @ self.vectors.T
        for row, number in zip(scores, numbers):
            for entity in self.mentions[number].golds:
                row[self.clusters[entity]] = -np.inf
        return [_best(row, n) for row in scores]


def _key(mention: GoldMention) -> tuple[str, str, tuple[int, ...]]:
    """Return a key that repetitions of a mention share."""
    return mention.written_in, mention.surface.lower(), mention.golds


def _best(scores: np.ndarray, n: int) -> list[int]:
    """Return the positions of the n highest finite scores, best first, ties by position."""
    n = min(n, len(scores))
    if n == 0:
        return []
    lowest = np.partition(scores, len(scores) - n)[len(scores) - n]
    places = np.flatnonzero((scores >= lowest) & (scores > -np.inf))
    best: list[int] = places[np.argsort(-scores[places], kind="stable")][:n].tolist()
    return best


class StoredRows:
    """The stored rows of a KB. They replace an ``EncodedIndex`` in training with frozen entities."""

    def __init__(self, kb: KnowledgeBase):
        self.kb = kb

    def best_rows(
        self, vectors: np.ndarray, left_out: Sequence[frozenset[int]], n: int
    ) -> list[list[Row]]:
        """Return the best row of each of the best entities; see ``EncodedIndex.best_rows``."""
        candidates = self.kb.search(vectors, n + max(map(len, left_out), default=0)).numbers
        wrong = [
            [entity for entity in row if entity >= 0 and entity not in gold][:n]
            for row, gold in zip(candidates.tolist(), left_out)
        ]
        stored = self._of_entities({entity for entities in wrong for entity in entities})
        return [
            [Row(entity, int(np.argmax(stored[entity] @ vector))) for entity in entities]
            for vector, entities in zip(vectors, wrong)
        ]

    def of(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the vectors of rows, float32 [n, dim]; PelError if an entity has none."""
        stored = self._of_entities({row.entity for row in rows})
        return np.stack([stored[row.entity][row.name] for row in rows])

    def _of_entities(self, entities: set[int]) -> dict[int, np.ndarray]:
        """Return the vectors of each entity, float32 [rows, dim]."""
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


class NegativePool:
    """Chooses rows of the KB for training, and searches some of them for evaluations.

    Hard negatives come from the rows of ``mined``. Evaluations search ``searched``, which has the gold
    entities of dev, unknown to training. Both may hold a part of a large KB, because encoding all of it
    repeatedly would take longer than the training.

    Args:
        kb: The knowledge base.
        index_unit: What a row stands for; see ``text.entity_texts``.
        name_dropout: The probability of hiding an alias when a positive is chosen or a text is made. It
            keeps the encoder from learning string matching alone.
        mined: The rows of hard negatives.
        searched: The rows that ``search`` finds; may be ``mined``. None: ``search`` is never called.
        mentions: The training mentions, encoded together with the mined entities.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        index_unit: str,
        name_dropout: float,
        mined: EncodedIndex | StoredRows,
        searched: EncodedIndex | None = None,
        mentions: GoldMentionIndex | None = None,
    ):
        self.kb = kb
        self.index_unit = index_unit
        self.name_dropout = name_dropout
        self.mined = mined
        self.searched = searched
        self.mentions = mentions
        self._entities = kb.numbers()
        self._trained = [i for i in (mined, mentions) if isinstance(i, EncodedIndex)]
        self._record = lru_cache(maxsize=CACHE_SIZE)(lambda number: kb.entities([number])[0])

    def note_update(self) -> None:
        """Note that the weights have changed."""
        for index in dict.fromkeys([*self._trained, *filter(None, [self.searched])]):
            index.age += 1

    def refresh_every(self, steps: int) -> None:
        """Encode mined rows and mentions that are at least ``steps`` updates old."""
        for index in self._trained:
            index.refresh(steps)

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        """Return the k best searched entities under the current weights, optionally filtered."""
        assert self.searched is not None, "a pool without searched rows"
        if any(index.is_encoded for index in self._trained):  # with one index or two
            self.refresh_every(1)
        self.searched.refresh(1, known=self.mined)
        numbers, allowed = self.searched.numbers, None
        if only is not None:
            allowed = np.zeros(numbers.max(initial=0) + 1, dtype=bool)
            allowed[np.intersect1d(numbers, self.kb.matching(only))] = True
        return self.searched.searchable.search(vectors, k, allowed)

    def random_rows(self, n: int, rng: np.random.Generator) -> list[Row]:
        """Draw n rows: an entity uniformly from the whole KB, then one of its rows."""
        entities = self._entities[rng.integers(len(self._entities), size=n)].tolist()
        counts = [1] * n
        if self.index_unit not in SINGLE_ROWS:
            counts = [len(self._record(entity).names) for entity in entities]
        return [Row(entity, int(rng.integers(count))) for entity, count in zip(entities, counts)]

    def positive_rows(self, mentions: Sequence[GoldMention], rng: np.random.Generator) -> list[Row]:
        """Return the row of each mention's first gold entity whose name is most similar to the mention.

        Some aliases are hidden, canonical names never.
        """
        if self.index_unit in SINGLE_ROWS:
            return [Row(mention.golds[0], 0) for mention in mentions]
        rows = []
        for mention in mentions:
            names = self._record(mention.golds[0]).names
            hidden = rng.random(len(names)) < self.name_dropout
            hidden[0] = False
            similarities = [
                -1.0 if is_hidden else _trigram_jaccard(mention.surface, name)
                for is_hidden, name in zip(hidden, names)
            ]
            rows.append(Row(mention.golds[0], int(np.argmax(similarities))))
        return rows

    def texts(self, rows: Sequence[Row], rng: np.random.Generator) -> list[EntityText]:
        """Return the texts of rows. Some aliases of an entity with one row are hidden."""
        texts = []
        for row in rows:
            entity = self._record(row.entity)
            if self.index_unit == "entity" and self.name_dropout:
                shown = rng.random(len(entity.aliases)) >= self.name_dropout
                entity = entity._replace(aliases=tuple(np.array(entity.aliases)[shown]))
            texts.append(proxy_texts(entity, self.index_unit)[row.name])
        return texts


def _trigram_jaccard(a: str, b: str) -> float:
    """Return the Jaccard index of the character trigrams of two names, ignoring case."""
    x, y = _trigrams(a), _trigrams(b)
    return len(x & y) / len(x | y)


@lru_cache(maxsize=20_000)
def _trigrams(name: str) -> frozenset[str]:
    padded = f"  {name.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))
