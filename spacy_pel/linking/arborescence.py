"""One edge for each node, so that all reach a root: the best ones, compared from the worst on.

This is the algorithm of Chu and Liu, and of Edmonds. As edges are compared by their places in one
order, not by sums of weights, the edges that leave a circle keep their places when it becomes one
node. So every edge is looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace

import numpy as np


def one_edge_each(edges: np.ndarray, n: int) -> np.ndarray:
    """The target of the edge that each node keeps.

    The worst edge that is kept is as good as can be, then the second worst, and so on. That is what
    remains if the edges are looked at from the worst to the best, and one is deleted if its source
    still reaches a root without it.

    Args:
        edges: int64 [E, 2], pairs of source and target, best first. Nodes from n on are roots.
            Each source reaches one.
        n: The number of nodes that are not roots. One that is no source is left out.

    Returns:
        int64 [n]; -1 for a node that is no source.
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
