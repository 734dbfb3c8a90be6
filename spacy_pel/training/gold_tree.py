"""The arborescence of a gold cluster: from where each mention is reached (ArboEL, 2.3)."""

from __future__ import annotations

import numpy as np

# What stands for the entity of a cluster, where numbers stand for its mentions.
ENTITY = -1


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
