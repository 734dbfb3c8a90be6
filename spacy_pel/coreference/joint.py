"""Joint linking: the mentions of a corpus are linked together, by clustering them (ArboEL).

The score of an edge is a log-odds: that the mention's best candidate is correct (the linker's
calibrated probability), or that two mentions have the same entity (a sigmoid of the cosine of their
vectors). ArboEL compares inner products directly, but these are on one scale only if the encoder was
trained on pairs of mentions and on pairs of a mention and an entity.
"""

from typing import NamedTuple

import numpy as np

from ..kb.vectors.index import MAPPED_KIND, Candidates, RowFinder, VectorIndex
from ..kb.vectors.index_building import built_lists
from ..kb.vectors.matrix import VectorMatrix
from .clusters import Clusters, MentionGraph, directed_clusters, undirected_clusters

MAX_NEIGHBOURS = 8  # of a mention
# With more mentions than this, neighbours are searched in an inverted file of FAISS: the time of an
# exhaustive search grows with the square of the number.
MAX_COMPARED = 50_000
# The lists of the inverted file that are searched for a mention. Of one million mentions in 2,000 lists
# that is one in 125.
_PROBES = 16
_BATCH_SIZE = 8_192  # mentions


class Neighbourhood(NamedTuple):
    """The choice of the neighbours of a mention."""

    k: int  # the maximum number of nearest mentions
    min_probability: float  # that a neighbour has the same entity (lambda in ArboEL)
    directed: bool  # use ``directed_clusters``, not ``undirected_clusters``


class JointSettings(NamedTuple):
    """Settings of joint linking, which ``pel calibrate --jointly`` fits."""

    # The log-odds that two mentions have the same entity are slope * cosine + intercept.
    slope: float
    intercept: float
    linking: Neighbourhood  # to link mentions
    discovery: Neighbourhood  # to discover entities that the KB lacks
    # The number of candidates that were reranked when it was fitted, as in ``Calibration``.
    reranked: int = 0


def log_odds_of(probabilities: np.ndarray) -> np.ndarray:
    """Return the log-odds of probabilities, float32; inf for 1 and -inf for 0."""
    with np.errstate(divide="ignore"):
        p = np.asarray(probabilities, dtype=np.float64)
        return (np.log(p) - np.log1p(-p)).astype(np.float32)


def mention_neighbours(matrix: VectorMatrix, k: int) -> Candidates:
    """Return the k nearest other mentions of each of n mentions by inner product, ties by number."""
    n = len(matrix)
    numbers = np.full((n, k), -1, dtype=np.int64)
    scores = np.full((n, k), -np.inf, dtype=np.float32)
    if not n or not k:
        return Candidates(numbers, scores)
    finder = None
    if n > MAX_COMPARED:
        finder = RowFinder(built_lists(matrix, MAPPED_KIND), _PROBES, n)
    index = VectorIndex(matrix, np.arange(n), finder)
    for start in range(0, n, _BATCH_SIZE):
        batch = np.arange(start, min(n, start + _BATCH_SIZE))
        nearest = index.search(matrix.take(batch), k + 1)
        dropped = nearest.numbers == batch[:, None]  # the mention itself, or else the last one
        dropped[~dropped.any(axis=1), -1] = True
        numbers[batch] = nearest.numbers[~dropped].reshape(len(batch), k)
        scores[batch] = nearest.scores[~dropped].reshape(len(batch), k)
    return Candidates(numbers, scores)


def joint_clusters(
    neighbours: Candidates,
    entities: np.ndarray,
    probabilities: np.ndarray,
    settings: JointSettings,
    neighbourhood: Neighbourhood,
) -> Clusters:
    """Cluster the n mentions of a corpus.

    Args:
        neighbours: The nearest mentions of each and their scores, [n, k] (``mention_neighbours``).
        entities: int64 [n], the best candidate of each mention, numbered in the order of the ids;
            -1 for NIL.
        probabilities: Float [n], the probability that it is correct; 1 if it is certain.
        settings: The slope and the intercept of scores.
        neighbourhood: Which neighbours are used.
    """
    odds = settings.slope * neighbours.scores.astype(np.float64) + settings.intercept
    graph = MentionGraph(
        neighbours.numbers, odds.astype(np.float32), entities, log_odds_of(probabilities)
    )
    threshold = float(log_odds_of(np.float64(neighbourhood.min_probability)))
    cluster = directed_clusters if neighbourhood.directed else undirected_clusters
    return cluster(graph.pruned(neighbourhood.k, threshold))
