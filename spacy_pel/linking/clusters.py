"""Mentions in clusters, each with one entity at most: the graph partitions of ArboEL (2.3, A.2).

An edge goes from a mention to another one near to it, or to its nearest entity. A mention gets the
entity of its cluster. Edges are taken by score, highest first; equal scores by the numbers of the
edge's source and target. So there is one right answer.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from .arborescence import one_edge_each

_BLOCK = 1 << 16


class MentionGraph(NamedTuple):
    """What is near to n mentions. A second entity would change nothing: the nearest comes first.

    Attributes:
        neighbours: int64 [n, k], the nearest other mentions of each; -1 where there are fewer.
        scores: float32 [n, k], their scores.
        entities: int64 [n], the nearest entity of each mention; -1 for none.
        entity_scores: float32 [n], their scores; inf for one that is certain.
    """

    neighbours: np.ndarray
    scores: np.ndarray
    entities: np.ndarray
    entity_scores: np.ndarray

    def without(self, k: int, threshold: float) -> MentionGraph:
        """The graph of the k nearest mentions whose scores are not below a threshold."""
        scores = self.scores[:, :k]
        neighbours = np.where(scores < threshold, -1, self.neighbours[:, :k])
        return self._replace(neighbours=neighbours, scores=scores)


class Clusters(NamedTuple):
    """The clusters of n mentions.

    Attributes:
        numbers: int64 [n], the number of each mention's cluster.
        entities: int64 [n], the entity of the cluster; -1 for none.
        through: int64 [n], the mention through which this one has its entity, the next on the way
            to it; -1 where it is the mention's own nearest, or there is none.
    """

    numbers: np.ndarray
    entities: np.ndarray
    through: np.ndarray


def undirected_clusters(graph: MentionGraph) -> Clusters:
    """Join along the edges, in their order, what does not bring two entities together (Kruskal).

    The directions of the edges do not count. It takes the time of sorting them, O(E log E).
    """
    edges, entities = _edges_of(graph)
    n = len(graph.entities)
    roots, kept = _joined(edges, n, n + len(entities))
    tree = edges[kept]
    both_ways = np.concatenate([tree, tree[:, ::-1]])
    before = _found_from_entities(both_ways, n, n + len(entities))
    return _clusters(roots[:n], before, entities)


def directed_clusters(graph: MentionGraph) -> Clusters:
    """Leave each mention one edge, by which an entity is reached (arborescences, ArboEL 2.3).

    The edges are looked at from the lowest score to the highest. One is deleted if its source still
    reaches an entity without it (reverse-delete). What is left is found here without the deletions:
    each mention takes its best edge; mentions in a circle become one, which takes the best edge that
    leaves it (Chu-Liu and Edmonds). Of two ways out of a circle the one by the better edge is left
    by the deletions too, so no edge needs another weight. Mentions that reach no entity keep all
    their edges. It takes O(E log E).
    """
    edges, entities = _edges_of(graph)
    n = len(graph.entities)
    reaches = _found_from_entities(edges[:, ::-1], n, n + len(entities)) >= 0
    chosen = one_edge_each(edges[reaches[edges].all(axis=1)], n)
    goals = np.concatenate(
        [np.where(chosen < 0, np.arange(n), chosen), n + np.arange(len(entities))]
    )
    while (goals[goals] != goals).any():
        goals = goals[goals]
    roots, _ = _joined(edges[~reaches[edges[:, 0]]], n, n)
    return _clusters(np.where(reaches[:n], goals[:n], roots), chosen, entities)


def _edges_of(graph: MentionGraph) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of source and target, int64 [E, 2], best first, and the distinct entities, int64 [m].

    The mentions are the nodes from 0, the entities those from n.
    """
    n, k = graph.neighbours.shape
    entities, places = np.unique(graph.entities, return_inverse=True)
    missing = int(len(entities) > 0 and entities[0] < 0)
    of_entities = np.where(graph.entities < 0, -1, places - missing + n)
    targets = np.concatenate([graph.neighbours, of_entities[:, None]], axis=1)
    scores = np.concatenate([graph.scores, graph.entity_scores[:, None]], axis=1)
    by_target = np.argsort(targets, axis=1, kind="stable")
    targets, scores = (np.take_along_axis(x, by_target, axis=1).ravel() for x in (targets, scores))
    sources = np.repeat(np.arange(n), k + 1)
    there = targets >= 0
    order = np.argsort(-scores[there], kind="stable")
    return np.stack([sources[there][order], targets[there][order]], axis=1), entities[missing:]


def _joined(edges: np.ndarray, n: int, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The root of each node, int64 [n_nodes], and which edges joined two sets, bool [E].

    The root of a set is its highest number. So it is the entity, if the set has one.
    """
    parents = list(range(n_nodes))
    kept = bytearray(len(edges))
    # Not all edges become ints at once, which would take gigabytes.
    blocks = (edges[start : start + _BLOCK].tolist() for start in range(0, len(edges), _BLOCK))
    for place, (a, b) in enumerate(chain.from_iterable(blocks)):
        while parents[a] != a:
            parents[a] = a = parents[parents[a]]
        while parents[b] != b:
            parents[b] = b = parents[parents[b]]
        if a != b and (a < n or b < n):
            parents[min(a, b)] = max(a, b)
            kept[place] = 1
    roots = np.array(parents, dtype=np.int64)
    while (roots[roots] != roots).any():
        roots = roots[roots]
    return roots, np.frombuffer(kept, dtype=bool)


def _found_from_entities(edges: np.ndarray, n: int, n_nodes: int) -> np.ndarray:
    """From where each node is found first, int64 [n_nodes], by edges from the entities on.

    An entity is found from itself; -1 stands for a node that is not found.
    """
    order = np.argsort(edges[:, 0], kind="stable")
    sources, targets = edges[order].T
    first = memoryview(np.searchsorted(sources, np.arange(n_nodes + 1)))
    following = memoryview(np.ascontiguousarray(targets))
    before = [-1] * n + list(range(n, n_nodes))
    queue = list(range(n, n_nodes))
    for node in queue:
        for target in following[first[node] : first[node + 1]]:
            if before[target] < 0:
                before[target] = node
                queue.append(target)
    return np.array(before, dtype=np.int64)


def _clusters(roots: np.ndarray, before: np.ndarray, entities: np.ndarray) -> Clusters:
    """The clusters of n mentions, of the roots of their sets, and of the next nodes on their ways."""
    n = len(roots)
    numbers = np.unique(roots, return_inverse=True)[1]
    own = np.full(n, -1, dtype=np.int64)
    own[roots >= n] = entities[roots[roots >= n] - n]
    return Clusters(numbers, own, np.where(before[:n] < n, before[:n], -1))
