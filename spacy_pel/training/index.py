"""Rows that mentions are trained against: under the weights of some updates ago, or of the KB."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.vectors.index import VectorIndex
from ..linking.retriever import Retriever
from ..reading.mention import GoldMention
from ..reading.proxies import CHUNK, encode_rows

logger = logging.getLogger(__name__)

# From numbers, int64, to the vectors of their rows, float32 [b, d], chunk by chunk, each with the
# number that each row is of, int64 [b].
Encode = Callable[[np.ndarray], Iterable[tuple[np.ndarray, np.ndarray]]]
# The document, the words and the entities of a mention. Those that have all in common are one here.
_Key = tuple[str, str, tuple[int, ...]]


class Row(NamedTuple):
    """One proxy."""

    entity: int  # its number
    name: int  # the position of the name that makes the row; 0 where an entity has one row


class EncodedIndex:
    """Rows in memory that are encoded, and encoded again when the weights have changed.

    Args:
        numbers: what has rows, by number, int64 [n], ascending.
        encode: encodes the rows.
        what: what has rows, and which, for the log. Indexes of the same may copy from each other.
    """

    def __init__(self, numbers: np.ndarray, encode: Encode, what: str):
        self.numbers = numbers
        self.what = what
        self.encoded_rows = 0  # so far
        self.age = 0  # in updates
        self._encode = encode
        self._vectors: np.ndarray | None = None
        self._owners = np.empty(0, dtype=np.int64)
        self._searchable: VectorIndex | None = None

    @property
    def is_encoded(self) -> bool:
        """Whether the rows were ever encoded."""
        return self._vectors is not None

    @property
    def vectors(self) -> np.ndarray:
        """The rows as they were last encoded, or are now, by their numbers: float32 [r, d]."""
        if self._vectors is None:
            self.refresh(0)
        return self._vectors

    def rows_of(self, number: int) -> np.ndarray:
        """The rows of a number as they were last encoded, float32 [r, d]."""
        vectors = self.vectors
        return vectors[slice(*np.searchsorted(self._owners, [number, number + 1]))]

    def refresh(self, updates: int, known: EncodedIndex | StoredRows | None = None) -> None:
        """Encode the rows if they never were, or are so old; ``known`` may have some to be copied."""
        if self.is_encoded and self.age < updates:
            return
        self._vectors = self._searchable = None  # their memory is needed for the next
        chunks, numbers = [], self.numbers
        if known is not None and known.is_encoded and known.age == 0 and known.what == self.what:
            is_wanted = np.isin(known._owners, numbers)
            chunks.append((known.vectors[is_wanted], known._owners[is_wanted]))
            numbers = np.setdiff1d(numbers, known.numbers)
        logger.info("encoding %d %s", len(numbers), self.what)
        for vectors, owners in self._encode(numbers):
            self.encoded_rows += len(owners)
            chunks.append((vectors, owners))
        vectors, owners = (np.concatenate(arrays) for arrays in zip(*chunks))
        order = np.argsort(owners, kind="stable")
        self._vectors, self._owners, self.age = vectors[order], owners[order], 0

    @property
    def searchable(self) -> VectorIndex:
        """The rows as they were last encoded, to be searched."""
        vectors = self.vectors
        if self._searchable is None:
            self._searchable = VectorIndex.from_vectors(vectors, self._owners)
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

    def encode(wanted: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return encode_rows(kb, wanted, row_kind, retriever.entity_vectors)

    return EncodedIndex(numbers, encode, f"of the KB's {len(kb)} entities ({row_kind})")


class GoldMentions(EncodedIndex):
    """All training mentions, each with one row, and the gold cluster of each entity.

    Repeats of a name of an entity in a document are one mention. They are numbered from 0, in the
    order of the corpus.
    """

    def __init__(self, mentions: Sequence[GoldMention], retriever: Retriever):
        first: dict[_Key, GoldMention] = {}
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
        self._clusters = {entity: np.array(own) for entity, own in clusters.items()}

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

    def cluster(self, entity: int) -> np.ndarray:
        """The numbers of the mentions that may mean an entity, int64, ascending."""
        return self._clusters[entity]

    def nearest_of(self, number: int, others: np.ndarray) -> int:
        """The nearest of some mentions to a mention; the first of equal ones."""
        vectors = self.vectors
        return int(others[np.argmax(vectors[others] @ vectors[number])])

    def nearest_others(self, numbers: Sequence[int], n: int) -> list[list[int]]:
        """For each mention up to n mentions of other entities, best first; equal ones by number."""
        vectors = self.vectors
        scores = vectors[numbers] @ vectors.T
        for row, number in zip(scores, numbers):
            for entity in self.mentions[number].golds:
                row[self._clusters[entity]] = -np.inf
        return [_best(row, n) for row in scores]


def _key(mention: GoldMention) -> _Key:
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

    is_encoded = False
    encoded_rows = 0

    def __init__(self, kb: KnowledgeBase):
        self.kb = kb
        self.age = 0

    def refresh(self, updates: int) -> None:
        """Do nothing: the vectors do not change."""

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

    def vectors(self, rows: Sequence[Row]) -> np.ndarray:
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
