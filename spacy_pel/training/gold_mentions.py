"""All training mentions, by the entities that they mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import PelError
from ..linking.retriever import Retriever
from ..reading.mention import GoldMention
from ..reading.proxies import CHUNK
from .index import EncodedIndex

# The document, the words and the entities of a mention. Those that have all in common are one here.
_Key = tuple[str, str, tuple[int, ...]]


class GoldMentions(EncodedIndex):
    """The training mentions, each with one row, and the gold cluster of each entity.

    Repeats of a name of an entity in a document are one mention, as in a step of a training.

    Args:
        mentions: all training mentions, in the order of the corpus.
        retriever: encodes them.

    Attributes:
        mentions: one mention for each name of an entity in a document; they are numbered from 0.
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
        """The numbers of mentions of a batch.

        Raises:
            PelError: one of them is none of the training mentions.
        """
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
        """The nearest mentions of other entities, by the vectors as they were last encoded.

        Args:
            numbers: the mentions to find them for.
            n: how many to find for each.

        Returns:
            For each mention the numbers of up to n, best first; equal scores by number.
        """
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
