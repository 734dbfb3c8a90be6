"""Joint linking: what the mentions of a corpus say of each other decides with what the KB says.

An edge's score is a log-odds: that the mention's best candidate is right (the linker's calibrated
probability), or that two mentions mean the same (a sigmoid of the cosine of their vectors). ArboEL
compares the inner products themselves. Those of mentions with each other and those of mentions with
entities are on one scale only if the encoder was trained on both. If the linker has a cross-encoder
that reads two mentions, its score takes the place of the cosine (``paired_mentions``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kb.vectors.index import Candidates
from .clusters import Clusters, MentionGraph, directed_clusters, undirected_clusters

# The most neighbours of a mention that count.
MOST_NEIGHBOURS = 8


class Neighbourhood(NamedTuple):
    """Which of a mention's neighbours count.

    Attributes:
        k: How many of the nearest mentions count, at most; 0: none.
        least: The least probability that a neighbour that counts means the same (lambda in ArboEL).
        directed: Whether a mention is joined to its own neighbours alone (``directed_clusters``).
    """

    k: int
    least: float
    directed: bool


class JointSettings(NamedTuple):
    """How the mentions of a corpus are linked together. ``pel calibrate --jointly`` fits it.

    Attributes:
        slope: What the score of two mentions is multiplied by: their cosine, or the cross-encoder's.
        intercept: What is added to the product, for the log-odds that they mean the same.
        linking: The neighbours that count when mentions are linked.
        discovery: Those that count when entities are looked for that the KB lacks.
        reranked: The number of candidates that were reranked when it was fitted, as in
            ``Calibration``.
    """

    slope: float
    intercept: float
    linking: Neighbourhood
    discovery: Neighbourhood
    reranked: int = 0

    def log_odds(self, scores: np.ndarray) -> np.ndarray:
        """The log-odds, float32, that mentions with these scores mean the same."""
        odds = self.slope * np.asarray(scores, dtype=np.float64) + self.intercept
        return odds.astype(np.float32)


def log_odds_of(probabilities: np.ndarray) -> np.ndarray:
    """The log-odds of probabilities, float32; inf for 1 and -inf for 0."""
    with np.errstate(divide="ignore"):
        p = np.asarray(probabilities, dtype=np.float64)
        return (np.log(p) - np.log1p(-p)).astype(np.float32)


def joint_clusters(
    neighbours: Candidates,
    entities: np.ndarray,
    probabilities: np.ndarray,
    settings: JointSettings,
    counted: Neighbourhood,
) -> Clusters:
    """Cluster the n mentions of a corpus.

    Args:
        neighbours: The nearest mentions of each and their scores, [n, k]
            (``mention_neighbours``, ``PairedMentions.scored``).
        entities: int64 [n], the best candidate of each mention, by a number that has the order of
            its id; -1 for NIL.
        probabilities: Float [n], the probability that it is right; 1 for one that is certain.
        settings: How scores are read.
        counted: The neighbours that count.
    """
    graph = MentionGraph(
        neighbours.numbers,
        settings.log_odds(neighbours.scores),
        entities,
        log_odds_of(probabilities),
    )
    of_counted = graph.without(counted.k, float(log_odds_of(np.float64(counted.least))))
    return (directed_clusters if counted.directed else undirected_clusters)(of_counted)
