"""Gold trees against the paper's deletions one by one, and networkx's maximum spanning trees."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.training.gold_tree import ENTITY, gold_tree

Edge = tuple[int, int]


def scores_of(mentions: np.ndarray, rows: np.ndarray) -> dict[Edge, float]:
    """Of all edges: from the entity to each mention, and between mentions in both directions."""
    n = len(mentions)
    edges = {(u, v): float(mentions[u] @ mentions[v]) for u in range(n) for v in range(n) if u != v}
    return edges | {(ENTITY, v): max(float(row @ mentions[v]) for row in rows) for v in range(n)}


def reached(edges: set[Edge]) -> set[int]:
    """The nodes to which a way leads from the entity."""
    found, before = {ENTITY}, None
    while found != before:
        before = set(found)
        found |= {v for u, v in edges if u in found}
    return found


def after_deletions(mentions: np.ndarray, rows: np.ndarray) -> list[int]:
    """ArboEL, 2.3, word for word; a brute force of O(E^2)."""
    scores = scores_of(mentions, rows)
    edges = set(scores)
    # The worst first; of equal ones the one whose ends have the higher numbers.
    for edge in sorted(scores, key=lambda e: (-scores[e], min(e), max(e)), reverse=True):
        if edge[1] in reached(edges - {edge}):
            edges.remove(edge)
    sources = {v: u for u, v in edges}
    assert len(edges) == len(sources) == len(mentions)
    return [sources[v] for v in range(len(mentions))]


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 10_000), st.booleans())
def test_it_is_what_the_deletions_leave(n: int, r: int, seed: int, has_ties: bool) -> None:
    rng = np.random.default_rng(seed)
    draw = (lambda s: rng.integers(-1, 2, s)) if has_ties else (lambda s: rng.normal(size=s))
    mentions, rows = draw((n, 2)).astype(np.float64), draw((r, 2)).astype(np.float64)
    assert gold_tree(mentions, rows).tolist() == after_deletions(mentions, rows)


@pytest.mark.parametrize("seed", range(5))
def test_a_large_one_is_the_maximum_spanning_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mentions, rows = rng.normal(size=(60, 8)), rng.normal(size=(3, 8))
    graph = networkx.Graph()
    for (u, v), score in scores_of(mentions, rows).items():
        graph.add_edge(u, v, weight=score)
    tree = networkx.maximum_spanning_tree(graph)
    sources = dict(networkx.predecessor(tree, ENTITY))
    assert gold_tree(mentions, rows).tolist() == [sources[v][0] for v in range(60)]


def test_a_mention_alone_comes_from_its_entity() -> None:
    assert gold_tree(-np.ones((1, 2)), np.ones((1, 2))).tolist() == [ENTITY]
