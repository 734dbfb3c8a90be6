"""Positives and negatives among mentions, by the arborescences of gold clusters (ArboEL, 2.3, 3.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple, cast

import numpy as np

from ..models.losses import Targets
from .negatives import check_minimum
from .pool import EncodedIndex, GoldMentionIndex, NegativePool, Row

# The entity of a cluster, where numbers stand for mentions.
ENTITY = -1


class MentionEdges(NamedTuple):
    """The edges to the n mentions of a batch."""

    others: list[int]  # the numbers of further mentions to encode
    # int64 [n], the position of each mention's positive among the batch and the others; ENTITY if it is
    # the entity.
    positive: np.ndarray
    negatives: np.ndarray  # bool [n, n + len(others)], the negatives among these

    def combine(self, rows: list[Row], targets: Targets) -> tuple[list[Row], Targets]:
        """Return the rows that are still needed, and targets over rows and mentions.

        The columns are the rows, the mentions of the batch, the other mentions.
        """
        of_entity = self.positive == ENTITY
        is_needed = np.asarray(targets.negatives.any(axis=0))
        is_needed[targets.positive[of_entity]] = True
        kept = np.flatnonzero(is_needed)
        columns = np.searchsorted(kept, targets.positive)
        positive = np.where(of_entity, columns, len(kept) + self.positive)
        negatives = np.concatenate([targets.negatives[:, kept], self.negatives], axis=1)
        return [rows[column] for column in kept], Targets(positive, negatives)


class Arborescence:
    """Mentions as positives and hard negatives, by gold clusters (ArboEL, 2.3 and 3.2).

    The positive of a mention is the source of its edge in the arborescence of its gold cluster: another
    mention of its entity, or the entity. The cluster is the entity and all its training mentions. Vectors are
    those of the last refresh.

    Args:
        among: The mentions of the arborescence: "all" of the cluster; "nearest", the mention and its
            nearest neighbour (1-NN); or "random", the mention and a random one (1-Rand).
        negatives: The number of hard negative mentions per mention (k/2 in the paper: 5). The linker's
            ``negatives`` selects the entities.
        refresh: The number of updates after which mentions and entities are encoded again.
    """

    def __init__(
        self,
        among: Literal["all", "nearest", "random"] = "all",
        negatives: int = 5,
        refresh: int = 500,
    ):
        check_minimum("an arborescence", negatives=(negatives, 0), refresh=(refresh, 1))
        self.among = among
        self.negatives = negatives
        self.refresh = refresh

    def __call__(
        self, numbers: Sequence[int], pool: NegativePool, rng: np.random.Generator
    ) -> MentionEdges:
        """Return the edges to the mentions of a batch. The pool must have an index of mentions."""
        assert pool.mentions is not None
        pool.refresh_every(self.refresh)
        sources = self._sources(numbers, pool, pool.mentions, rng)
        wrong = pool.mentions.nearest_others(numbers, self.negatives)
        places: dict[int, int] = {}
        for place, number in enumerate(numbers):
            places.setdefault(number, place)
        others: list[int] = []
        for number in [*sources, *chain.from_iterable(wrong)]:
            if number != ENTITY and number not in places:
                places[number] = len(numbers) + len(others)
                others.append(number)
        positive = [places.get(number, ENTITY) for number in sources]
        negatives = np.zeros((len(numbers), len(numbers) + len(others)), dtype=bool)
        for row, wrong_numbers in zip(negatives, wrong):
            row[[places[number] for number in wrong_numbers]] = True
        return MentionEdges(others, np.array(positive, dtype=np.int64), negatives)

    def _sources(
        self,
        numbers: Sequence[int],
        pool: NegativePool,
        mentions: GoldMentionIndex,
        rng: np.random.Generator,
    ) -> list[int]:
        """Return the source of the edge into each mention: a mention, or ENTITY."""
        vectors = mentions.vectors
        trees: dict[tuple[int, bytes], np.ndarray] = {}
        sources = []
        for number in numbers:
            entity = mentions.mentions[number].golds[0]
            members = self._members(number, entity, mentions, rng)
            key = entity, members.tobytes()
            if key not in trees:
                places = gold_tree(
                    vectors[members], cast("EncodedIndex", pool.mined).rows_of(entity)
                )
                trees[key] = np.where(places == ENTITY, ENTITY, members[places])
            sources.append(int(trees[key][np.searchsorted(members, number)]))
        return sources

    def _members(
        self, number: int, entity: int, mentions: GoldMentionIndex, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the mentions of the arborescence of an entity's cluster, in ascending order."""
        cluster, vectors = mentions.clusters[entity], mentions.vectors
        others = cluster[cluster != number]
        if self.among == "all" or not len(others):
            return cluster
        if self.among == "nearest":
            other = others[np.argmax(vectors[others] @ vectors[number])]
        else:
            other = rng.choice(others)
        return np.sort(np.array([number, other]))


def gold_tree(mentions: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the source of the edge into each mention after pruning a gold cluster.

    The graph has an edge from the entity to each mention, and edges between all mentions in both directions
    (ArboEL, Eq. 5). The paper deletes edges from the lowest score to the highest if the entity still reaches
    the target of the edge without it. An edge and its reverse have the same score, so the result is the
    maximum spanning tree, directed away from the entity. Prim's algorithm finds it in O(c^2) for c mentions.
    Ties go by the lower end of an edge, then by the higher; the entity is lower than all mentions.

    Args:
        mentions: The vectors of the mentions, float [c, d].
        rows: The vectors of the entity, float [r, d], at least one. The best one counts.

    Returns:
        int64 [c], the position of a mention, or ENTITY.
    """
    scores = (mentions @ rows.T).max(axis=1, initial=-np.inf)
    sources = np.full(len(mentions), ENTITY, dtype=np.int64)
    is_outside = np.ones(len(mentions), dtype=bool)
    for _ in range(len(mentions)):
        node = _next(np.where(is_outside, scores, -np.inf), sources)
        is_outside[node] = False
        from_node = mentions @ mentions[node]
        is_better = (from_node > scores) | ((from_node == scores) & (node < sources))
        is_better &= is_outside
        scores[is_better] = from_node[is_better]
        sources[is_better] = node
    return sources


def _next(scores: np.ndarray, sources: np.ndarray) -> int:
    """Return the mention whose edge has the highest score; ties by the lower end, then the higher."""
    best = np.flatnonzero(scores == scores.max())
    if len(best) == 1:
        return int(best[0])
    ends = np.sort(np.stack([sources[best], best]), axis=0)
    return int(best[np.lexsort((ends[1], ends[0]))[0]])
