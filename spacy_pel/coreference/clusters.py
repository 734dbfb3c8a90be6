"""Mentions in clusters, each with one entity at most: the graph partitions of ArboEL (2.3, A.2).

An edge goes from a mention to another one near to it, or to its nearest entity. A mention gets the
entity of its cluster. Edges are taken by score, highest first; equal scores by the numbers of the
edge's source and target. So there is one right answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from itertools import chain
from typing import NamedTuple

import numpy as np

_BLOCK = 1 << 16


class MentionGraph(NamedTuple):
    """What is near to n mentions. A second entity would change nothing: the nearest comes first."""

    # int64 [n, k], the nearest other mentions of each; -1 where there are fewer.
    neighbours: np.ndarray
    scores: np.ndarray  # float32 [n, k], their scores
    entities: np.ndarray  # int64 [n], the nearest entity of each mention; -1 for none
    entity_scores: np.ndarray  # float32 [n], their scores; inf for one that is certain

    def without(self, k: int, threshold: float) -> MentionGraph:
        """The graph of the k nearest mentions whose scores are not below a threshold."""
        scores = self.scores[:, :k]
        neighbours = np.where(scores < threshold, -1, self.neighbours[:, :k])
        return self._replace(neighbours=neighbours, scores=scores)


class Clusters(NamedTuple):
    """The clusters of n mentions."""

    numbers: np.ndarray  # int64 [n], the number of each mention's cluster
    entities: np.ndarray  # int64 [n], the entity of the cluster; -1 for none
    # int64 [n], the mention through which this one has its entity, the next on the way to it; -1
    # where it is the mention's own nearest, or there is none.
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


def one_edge_each(edges: np.ndarray, n: int) -> np.ndarray:
    """The target of the edge that each of n nodes keeps, so that all reach a root, int64 [n].

    It is what remains if the edges are looked at from the worst to the best, and one is deleted if its
    source still reaches a root without it. This is the algorithm of Chu and Liu, and of Edmonds. As
    edges are compared by their places in one order, not by sums of weights, the edges that leave a
    circle keep their places when it becomes one node. So every edge is looked at once.

    ``edges``, int64 [E, 2], are pairs of source and target, best first. Nodes from n on are roots. Each
    source reaches one. -1 stands for a node that is no source.
    """
    growth = _Growth(edges, n)
    for node in np.unique(edges[:, 0]).tolist():
        growth.reach_a_root(node)
    return growth.targets()


class _Growth:
    """Nodes that take their best edges; those of a circle become one node, with a new number."""

    def __init__(self, edges: np.ndarray, n: int) -> None:
        order = np.argsort(edges[:, 0], kind="stable")
        sources, targets = edges[order].T
        self.n = n
        self.places = memoryview(order)  # of the edges, source by source
        self.following = memoryview(np.ascontiguousarray(targets))
        first = np.searchsorted(sources, np.arange(n + 1))
        self.next, self.end = first[:-1].tolist(), memoryview(first[1:].copy())
        self.union = list(range(n))  # leads from a node to the one that it has become part of
        self.inside = list(range(n))  # the node that each became part of, itself if none
        self.reaches = bytearray(n)
        self.chosen: list[tuple[int, int] | None] = [None] * n  # source and target
        self.leaving: dict[int, list[tuple[int, int]]] = {}  # heaps of the circles: place, source

    def reach_a_root(self, start: int) -> None:
        """Have all nodes on the way from a node choose their edges."""
        path: list[int] = []
        positions: dict[int, int] = {}
        node = self._now(start)
        while not self.reaches[node]:
            source, target = self.chosen[node] = self._best_edge(node)
            positions[node] = len(path)
            path.append(node)
            if target >= self.n:
                break
            node = self._now(target)
            if node in positions:
                circle = path[positions[node] :]
                del path[positions[node] :]
                for member in circle:
                    del positions[member]
                node = self._as_one(circle)
        for node in path:
            self.reaches[node] = 1

    def targets(self) -> np.ndarray:
        """What each node's edge leads to, at the end."""
        targets = np.full(self.n, -1, dtype=np.int64)
        replaced = bytearray(len(self.inside))
        for node in range(len(self.inside) - 1, -1, -1):  # a circle before its members
            if self.chosen[node] is None or replaced[node]:
                continue
            source, target = self.chosen[node]
            targets[source] = target
            while source != node:  # the edge out of the circle takes the place of those in it
                replaced[source] = 1
                source = self.inside[source]
        return targets

    def _now(self, node: int) -> int:
        """The node that this one is part of."""
        union = self.union
        while union[node] != node:
            union[node] = node = union[union[node]]
        return node

    def _best_edge(self, node: int) -> tuple[int, int]:
        """The best edge that leaves a node, which is then passed over."""
        if node < self.n:
            place = self.next[node]
            self.next[node] += 1
            return node, self.following[place]
        heap = self.leaving[node]
        while True:
            source = heap[0][1]
            target = self.following[self.next[source]]
            self.next[source] += 1
            if self.next[source] < self.end[source]:
                heapreplace(heap, (self.places[self.next[source]], source))
            else:
                heappop(heap)
            if target >= self.n or self._now(target) != node:
                return source, target

    def _as_one(self, circle: Sequence[int]) -> int:
        """A new node of the nodes of a circle."""
        new = len(self.inside)
        for members in (self.union, self.inside):
            members.append(new)
            for node in circle:
                members[node] = new
        self.reaches.append(0)
        self.chosen.append(None)
        largest, *others = sorted(map(self._heap, circle), key=len, reverse=True)
        for heap in others:
            for edge in heap:
                heappush(largest, edge)
        self.leaving[new] = largest
        return new

    def _heap(self, node: int) -> list[tuple[int, int]]:
        """The next edge of each of the nodes that a node is made of, as a heap."""
        if node >= self.n:
            return self.leaving.pop(node)
        place = self.next[node]
        return [(self.places[place], node)] if place < self.end[node] else []
