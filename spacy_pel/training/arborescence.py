"""Which mentions a batch is trained against, beside entities (ArboEL, 2.3 and 3.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..models.losses import Targets
from .negatives import at_least
from .pool import GoldMentions, Pool, Row

# What stands for the entity of a cluster, where numbers stand for its mentions.
ENTITY = -1


class MentionEdges(NamedTuple):
    """The edges to the n mentions of a batch."""

    others: list[int]  # the numbers of the mentions that are encoded beside those of the batch
    # int64 [n], the place of each mention's positive among those of the batch and the others; ENTITY
    # where that is its entity.
    positive: np.ndarray
    negatives: np.ndarray  # bool [n, n + len(others)], which of them are its negatives

    def beside(self, rows: list[Row], targets: Targets) -> tuple[list[Row], Targets]:
        """The rows of entities that a mention still needs, and targets for them and the mentions.

        Columns are the rows, the mentions of the batch, the others.
        """
        of_entity = self.positive == ENTITY
        is_needed = targets.negatives.any(axis=0)
        is_needed[targets.positive[of_entity]] = True
        kept = np.flatnonzero(is_needed)
        own = np.searchsorted(kept, targets.positive)
        positive = np.where(of_entity, own, len(kept) + self.positive)
        negatives = np.concatenate([targets.negatives[:, kept], self.negatives], axis=1)
        return [rows[column] for column in kept], Targets(positive, negatives)


class Arborescence:
    """Mentions as positives and hard negatives, by gold clusters (ArboEL, 2.3 and 3.2).

    The positive of a mention is what its edge in the arborescence of its gold cluster comes from:
    another mention of its entity, or the entity. The cluster is the entity and all its training
    mentions. Vectors are those of the last refresh.

    Args:
        among: Which mentions of the cluster the arborescence is over: "all"; "nearest", the mention
            and the one nearest to it (1-NN); or "random", the mention and another one (1-Rand).
        negatives: The number of hard negative mentions of a mention; k/2 in the paper, where it is
            5. Entities are chosen by the linker's ``negatives``.
        refresh: The number of updates after which mentions and entities are encoded again.
    """

    def __init__(
        self,
        among: Literal["all", "nearest", "random"] = "all",
        negatives: int = 5,
        refresh: int = 500,
    ):
        at_least("an arborescence", negatives=(negatives, 0), refresh=(refresh, 1))
        self.among = among
        self.negatives = negatives
        self.refresh = refresh

    def __call__(
        self, numbers: Sequence[int], pool: Pool, rng: np.random.Generator
    ) -> MentionEdges:
        """The edges to the mentions of a batch, by the index of mentions that the pool has."""
        pool.refresh_every(self.refresh)
        sources = self._sources(numbers, pool, rng)
        wrong = pool.mentions.nearest_others(numbers, self.negatives)
        places: dict[int, int] = {}
        for place, number in enumerate(numbers):
            places.setdefault(number, place)
        others: list[int] = []
        for number in [*sources, *sum(wrong, [])]:
            if number != ENTITY and number not in places:
                places[number] = len(numbers) + len(others)
                others.append(number)
        positive = [places.get(number, ENTITY) for number in sources]
        negatives = np.zeros((len(numbers), len(numbers) + len(others)), dtype=bool)
        for row, own in zip(negatives, wrong):
            row[[places[number] for number in own]] = True
        return MentionEdges(others, np.array(positive, dtype=np.int64), negatives)

    def _sources(self, numbers: Sequence[int], pool: Pool, rng: np.random.Generator) -> list[int]:
        """The mention that the edge into each mention comes from, or ENTITY."""
        vectors = pool.mentions.vectors
        trees: dict[tuple[int, bytes], np.ndarray] = {}
        sources = []
        for number in numbers:
            entity = pool.mentions.mentions[number].golds[0]
            members = self._members(number, entity, pool.mentions, rng)
            key = entity, members.tobytes()
            if key not in trees:
                places = gold_tree(vectors[members], pool.mined.rows_of(entity))
                trees[key] = np.where(places == ENTITY, ENTITY, members[places])
            sources.append(int(trees[key][np.searchsorted(members, number)]))
        return sources

    def _members(
        self, number: int, entity: int, mentions: GoldMentions, rng: np.random.Generator
    ) -> np.ndarray:
        """The mentions of an entity's cluster that the arborescence is over, ascending."""
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
    """The source of the one edge into each mention that the pruning of a gold cluster leaves.

    The graph has an edge from the entity to each mention, and edges between all mentions in both
    directions (ArboEL, Eq. 5). The paper deletes edges from the lowest score to the highest, each
    without which the entity still reaches the edge's target. As an edge and its reverse have one
    score, what is left is the maximum spanning tree, seen from the entity. Prim's algorithm grows it
    in O(c^2) for c mentions. Equal scores go by the lower end of an edge, then by the higher; the
    entity is lower than all mentions.

    Args:
        mentions: the vectors of the mentions, float [c, d].
        rows: the vectors of the entity, float [r, d], at least one. The best counts.

    Returns:
        int64 [c], the place of a mention, or ENTITY.
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
    """The mention whose edge has the highest score; equal ones by their lower end, then the other."""
    best = np.flatnonzero(scores == scores.max())
    if len(best) == 1:
        return int(best[0])
    ends = np.sort(np.stack([sources[best], best]), axis=0)
    return int(best[np.lexsort((ends[1], ends[0]))[0]])
