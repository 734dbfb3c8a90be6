"""Clusters of mentions, each with at most one entity: the graph partitions of ArboEL (2.3, A.2).

An edge goes from a mention to a near mention, or to its nearest entity. A mention gets the entity of
its cluster. Edges are ordered by score, highest first, and then by the numbers of their source and
target, so that the result is unique.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from itertools import chain
from typing import NamedTuple

import numpy as np

_BLOCK = 1 << 16  # edges


class MentionGraph(NamedTuple):
    """The edges of n mentions: to other mentions, and from each mention to its nearest entity."""

    neighbours: np.ndarray  # int64 [n, k], the nearest other mentions of each; -1 for none
    scores: np.ndarray  # float32 [n, k], their scores
    entities: np.ndarray  # int64 [n], the nearest entity of each mention; -1 for none
    entity_scores: np.ndarray  # float32 [n], their scores; inf if the entity is certain

    def pruned(self, k: int, threshold: float) -> MentionGraph:
        """Return the graph of the k nearest mentions whose scores are not below a threshold."""
        scores = self.scores[:, :k]
        neighbours = np.where(scores < threshold, -1, self.neighbours[:, :k])
        return self._replace(neighbours=neighbours, scores=scores)


class Clusters(NamedTuple):
    """The clusters of n mentions."""

    numbers: np.ndarray  # int64 [n], the number of each mention's cluster
    entities: np.ndarray  # int64 [n], the entity of the cluster; -1 for none
    # int64 [n], the next mention on the path to the entity; -1 if the entity is the next node, or there
    # is none.
    through: np.ndarray


def undirected_clusters(graph: MentionGraph) -> Clusters:
    """Join mentions along the edges, in order, unless this joins two entities (Kruskal).

    The direction of the edges is ignored. The time is that of sorting them, O(E log E).
    """
    edges, entities = _edges_of(graph)
    n = len(graph.entities)
    roots, kept = _joined(edges, n, n + len(entities))
    tree = edges[kept]
    both_ways = np.concatenate([tree, tree[:, ::-1]])
    before = _predecessors(both_ways, n, n + len(entities))
    return _clusters(roots[:n], before, entities)


def directed_clusters(graph: MentionGraph) -> Clusters:
    """Keep one edge of each mention, on a path to an entity (arborescences, ArboEL 2.3).

    ArboEL deletes edges from the lowest score to the highest if their source still reaches an entity
    without them (reverse-delete). This function gets the same result without deletions: each mention
    takes its best edge; mentions in a cycle are contracted to one node, which takes the best edge that
    leaves the cycle (Chu-Liu and Edmonds). Deletion keeps the better of two edges out of a cycle, too,
    so that no edge needs a new weight. Mentions that reach no entity keep all their edges. The time is
    O(E log E).
    """
    edges, entities = _edges_of(graph)
    n = len(graph.entities)
    reaches = _predecessors(edges[:, ::-1], n, n + len(entities)) >= 0
    chosen = one_edge_each(edges[reaches[edges].all(axis=1)], n)
    goals = np.concatenate(
        [np.where(chosen < 0, np.arange(n), chosen), n + np.arange(len(entities))]
    )
    while (goals[goals] != goals).any():
        goals = goals[goals]
    roots, _ = _joined(edges[~reaches[edges[:, 0]]], n, n)
    return _clusters(np.where(reaches[:n], goals[:n], roots), chosen, entities)


def _edges_of(graph: MentionGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of source and target, int64 [E, 2], best first, and the distinct entities, int64 [m].

    The n mentions are the nodes from 0, the entities are the nodes from n.
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
    mask = targets >= 0
    order = np.argsort(-scores[mask], kind="stable")
    return np.stack([sources[mask][order], targets[mask][order]], axis=1), entities[missing:]


def _joined(edges: np.ndarray, n: int, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the root of each node, int64 [n_nodes], and whether each edge joined two sets, bool [E].

    The root of a set is its highest number, which is the entity if the set has one.
    """
    parents = list(range(n_nodes))
    kept = bytearray(len(edges))
    # Python integers of all edges at once would take gigabytes.
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


def _predecessors(edges: np.ndarray, n: int, n_nodes: int) -> np.ndarray:
    """Search from the entities, breadth first, and return the predecessor of each node, int64 [n_nodes].

    An entity is its own predecessor; -1 stands for a node that is not reached.
    """
    order = np.argsort(edges[:, 0], kind="stable")
    sources, targets = edges[order].T
    first = np.searchsorted(sources, np.arange(n_nodes + 1)).data
    following = np.ascontiguousarray(targets).data
    before = [-1] * n + list(range(n, n_nodes))
    queue = list(range(n, n_nodes))
    for node in queue:
        for target in following[first[node] : first[node + 1]]:
            if before[target] < 0:
                before[target] = node
                queue.append(target)
    return np.array(before, dtype=np.int64)


def _clusters(roots: np.ndarray, before: np.ndarray, entities: np.ndarray) -> Clusters:
    """Return the clusters of n mentions from the roots of their sets and the next nodes on their paths."""
    n = len(roots)
    numbers = np.unique(roots, return_inverse=True)[1]
    of_mentions = np.full(n, -1, dtype=np.int64)
    of_mentions[roots >= n] = entities[roots[roots >= n] - n]
    return Clusters(numbers, of_mentions, np.where(before[:n] < n, before[:n], -1))


def one_edge_each(edges: np.ndarray, n: int) -> np.ndarray:
    """Return the target of the one edge that each of n nodes keeps, int64 [n], so that all reach a root.

    The result is that of deleting the edges from the worst to the best, if their source still reaches a
    root without them. The algorithm is that of Chu and Liu, and of Edmonds. Because edges are compared
    by their rank and not by sums of weights, the edges that leave a cycle keep their ranks when it is
    contracted. So every edge is visited once.

    Args:
        edges: Pairs of source and target, int64 [E, 2], best first. Each source reaches a root.
        n: The number of nodes that are no roots. Nodes from n on are roots.

    Returns:
        The targets; -1 for a node that is no source.
    """
    growth = _Growth(edges, n)
    for node in np.unique(edges[:, 0]).tolist():
        growth.reach_a_root(node)
    return growth.targets()


class _Growth:
    """Nodes that take their best edges. A cycle is contracted to a node with a new number."""

    def __init__(self, edges: np.ndarray, n: int) -> None:
        order = np.argsort(edges[:, 0], kind="stable")
        sources, targets = edges[order].T
        self.n = n
        self.ranks = order.data  # of the edges, ordered by source
        self.following = np.ascontiguousarray(targets).data
        first = np.searchsorted(sources, np.arange(n + 1))
        self.next, self.end = first[:-1].tolist(), first[1:].copy().data
        self.union = list(range(n))  # union-find: from a node towards the one that contains it
        self.inside = list(range(n))  # the cycle that each node is a direct member of, or itself
        self.reaches = bytearray(n)
        self.chosen: list[tuple[int, int] | None] = [None] * n  # source and target
        self.leaving: dict[int, list[tuple[int, int]]] = {}  # heaps of the cycles: rank, source

    def reach_a_root(self, start: int) -> None:
        """Choose the edges of all nodes on the path from a node to a root."""
        path: list[int] = []
        positions: dict[int, int] = {}
        node = self._now(start)
        while not self.reaches[node]:
            source, target = self._best_edge(node)
            self.chosen[node] = source, target
            positions[node] = len(path)
            path.append(node)
            if target >= self.n:
                break
            node = self._now(target)
            if node in positions:
                cycle = path[positions[node] :]
                del path[positions[node] :]
                for member in cycle:
                    del positions[member]
                node = self._contracted(cycle)
        for node in path:
            self.reaches[node] = 1

    def targets(self) -> np.ndarray:
        """Return the target of each node's final edge."""
        targets = np.full(self.n, -1, dtype=np.int64)
        replaced = bytearray(len(self.inside))
        for node in range(len(self.inside) - 1, -1, -1):  # a cycle before its members
            edge = self.chosen[node]
            if edge is None or replaced[node]:
                continue
            source, target = edge
            targets[source] = target
            while source != node:  # the edge out of the cycle replaces those within it
                replaced[source] = 1
                source = self.inside[source]
        return targets

    def _now(self, node: int) -> int:
        """Return the outermost cycle that contains a node, or the node if no cycle does."""
        union = self.union
        while union[node] != node:
            union[node] = node = union[union[node]]
        return node

    def _best_edge(self, node: int) -> tuple[int, int]:
        """Return the best edge that leaves a node, and advance to the next one."""
        if node < self.n:
            position = self.next[node]
            self.next[node] += 1
            return node, self.following[position]
        heap = self.leaving[node]
        while True:
            source = heap[0][1]
            target = self.following[self.next[source]]
            self.next[source] += 1
            if self.next[source] < self.end[source]:
                heapreplace(heap, (self.ranks[self.next[source]], source))
            else:
                heappop(heap)
            if target >= self.n or self._now(target) != node:
                return source, target

    def _contracted(self, cycle: Sequence[int]) -> int:
        """Contract the nodes of a cycle to a new node."""
        new = len(self.inside)
        for members in (self.union, self.inside):
            members.append(new)
            for node in cycle:
                members[node] = new
        self.reaches.append(0)
        self.chosen.append(None)
        largest, *others = sorted(map(self._heap, cycle), key=len, reverse=True)
        for heap in others:
            for edge in heap:
                heappush(largest, edge)
        self.leaving[new] = largest
        return new

    def _heap(self, node: int) -> list[tuple[int, int]]:
        """Return the next edge of each member of a node, as a heap of (rank, source)."""
        if node >= self.n:
            return self.leaving.pop(node)
        position = self.next[node]
        return [(self.ranks[position], node)] if position < self.end[node] else []
