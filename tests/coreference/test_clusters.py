"""Clusters, against the deletions and unions of the paper done one by one."""

import numpy as np
import pytest

from spacy_pel.coreference.clusters import (
    Clusters,
    MentionGraph,
    directed_clusters,
    undirected_clusters,
)

Edge = tuple[tuple[str, int], tuple[str, int]]


def random_graph(rng: np.random.Generator) -> MentionGraph:
    """A small graph, with ties, missing neighbours and mentions without an entity."""
    n, k = int(rng.integers(1, 12)), int(rng.integers(0, 5))
    k = min(k, n - 1)
    neighbours = np.full((n, k), -1)
    for mention in range(n):
        others = np.delete(np.arange(n), mention)
        neighbours[mention] = rng.permutation(others)[:k]
    neighbours[rng.random((n, k)) < 0.2] = -1
    levels = rng.choice([2, 4, 1000])
    entities = rng.integers(0, rng.integers(1, 6), size=n) * 10
    entities[rng.random(n) < rng.choice([0, 0.3, 0.8])] = -1
    scores = rng.integers(0, levels, size=(n, k)).astype(np.float32)
    entity_scores = rng.integers(0, levels, size=n).astype(np.float32)
    return MentionGraph(neighbours, scores, entities, entity_scores)


def edges_of(graph: MentionGraph) -> list[Edge]:
    """The edges, best first; equal scores by source, then mentions by number, then the entity."""
    edges = []
    for mention, (row, scores) in enumerate(zip(graph.neighbours, graph.scores)):
        edges += [(-s, mention, 0, int(t)) for t, s in zip(row, scores) if t >= 0]
        if graph.entities[mention] >= 0:
            edges.append((-graph.entity_scores[mention], mention, 1, int(graph.entities[mention])))
    return [(("m", m), ("me"[kind], target)) for _, m, kind, target in sorted(edges)]


def reached(node: tuple[str, int], edges: list[Edge]) -> set[tuple[str, int]]:
    """What is reached from a node by the directions of edges, itself included."""
    found = [node]
    for at in found:
        found += [b for a, b in edges if a == at and b not in found]
    return set(found)


def entity_of(nodes: set[tuple[str, int]]) -> int:
    """The one entity among some nodes; -1 if there is none."""
    (entity,) = [number for kind, number in nodes if kind == "e"] or [-1]
    return entity


def both_ways(edges: list[Edge]) -> list[Edge]:
    return [*edges, *((b, a) for a, b in edges)]


def assert_as_by_hand(found: Clusters, graph: MentionGraph, kept: list[Edge]) -> None:
    n = len(graph.entities)
    parts = [reached(("m", m), both_ways(kept)) for m in range(n)]
    assert found.entities.tolist() == [entity_of(part) for part in parts]
    together = [[("m", b) in parts[a] for b in range(n)] for a in range(n)]
    assert (found.numbers[:, None] == found.numbers).tolist() == together


def assert_ways_end_at_the_entity(found: Clusters, graph: MentionGraph) -> None:
    """The next mentions, one after the other, lead to one whose own entity is the cluster's."""
    for mention, entity in enumerate(found.entities):
        way = [mention]
        while found.through[way[-1]] >= 0:
            way.append(found.through[way[-1]])
            assert way[-1] in graph.neighbours[way[-2]] or way[-2] in graph.neighbours[way[-1]]
        assert len(way) == 1 if entity < 0 else graph.entities[way[-1]] == entity


@pytest.mark.parametrize("seed", range(10))
def test_undirected_clusters_are_those_of_deletions(seed: int) -> None:
    """An edge is deleted, from the worst on, if its ends hang together without it.

    Entities count as hanging together by themselves: they must not do so by way of mentions.
    """
    rng = np.random.default_rng(seed)
    for _ in range(100):
        graph = random_graph(rng)
        edges = edges_of(graph)
        entities = {b for _, b in edges if b[0] == "e"}
        of_root = [(("root", 0), entity) for entity in entities]
        for edge in reversed(edges.copy()):
            others = [other for other in edges if other != edge]
            if edge[1] in reached(edge[0], both_ways([*others, *of_root])):
                edges = others
        found = undirected_clusters(graph)
        assert_as_by_hand(found, graph, edges)
        assert_ways_end_at_the_entity(found, graph)


@pytest.mark.parametrize("seed", range(10))
def test_directed_clusters_are_those_of_deletions(seed: int) -> None:
    """An edge is deleted, from the worst on, if its source reaches an entity without it."""
    rng = np.random.default_rng(seed + 1000)
    for _ in range(100):
        graph = random_graph(rng)
        edges = edges_of(graph)
        for edge in reversed(edges.copy()):
            others = [other for other in edges if other != edge]
            if any(kind == "e" for kind, _ in reached(edge[0], others)):
                edges = others
        found = directed_clusters(graph)
        assert_as_by_hand(found, graph, edges)
        next_mentions = {a[1]: b[1] for a, b in edges if b[0] == "m" and found.entities[a[1]] >= 0}
        assert {m: int(t) for m, t in enumerate(found.through) if t >= 0} == next_mentions
