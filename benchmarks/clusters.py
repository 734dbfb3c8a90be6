"""How long it takes to cluster mentions, and in what memory, over graphs of 10^4 to 10^7 edges.

    python benchmarks/clusters.py --mentions 1200,12000,120000,1000000

Mentions lie near the entities of a made-up knowledge base, as many as one in ten mentions. Each has
its k nearest mentions among those of its own and of the next entity, with scores that have ties.
"""

from __future__ import annotations

import resource
import time

import numpy as np
import typer

from spacy_pel.linking.clusters import MentionGraph, directed_clusters, undirected_clusters


def made_up_graph(n: int, k: int, seed: int = 0) -> MentionGraph:
    """A graph of n mentions, each with k neighbours and, nine times of ten, an entity."""
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(0, max(1, n // 10), size=n))
    steps = rng.integers(1, 15, size=(n, k)) * rng.choice([-1, 1], size=(n, k))
    neighbours = (np.arange(n)[:, None] + steps) % n
    near = groups[neighbours] == groups[:, None]
    scores = np.round(rng.normal(0.6, 0.1, size=(n, k)) + 0.2 * near, 4).astype(np.float32)
    entities = np.where(rng.random(n) < 0.1, -1, groups + rng.integers(-1, 2, size=n).clip(0))
    own = np.round(rng.normal(0.65, 0.15, size=n), 4).astype(np.float32)
    return MentionGraph(neighbours, scores, entities, own)


def main(mentions: str = "1200,12000,120000,1000000", k: int = 8) -> None:
    """Cluster graphs of these numbers of MENTIONS, each with K neighbours."""
    print("| mentions | edges | undirected, s | directed, s | us per edge and log2(E) | peak, GB |")
    print("|---|---|---|---|---|---|")
    for n in map(int, mentions.split(",")):
        graph = made_up_graph(n, k)
        edges = (graph.neighbours >= 0).sum() + (graph.entities >= 0).sum()
        seconds = []
        for clusters in (undirected_clusters, directed_clusters):
            started = time.process_time()
            clusters(graph)
            seconds.append(time.process_time() - started)
        each = " / ".join(f"{1e6 * s / edges / np.log2(edges):.3f}" for s in seconds)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"| {n:,} | {edges:,} | {seconds[0]:.1f} | {seconds[1]:.1f} | {each} | {peak:.1f} |")


if __name__ == "__main__":
    typer.run(main)
