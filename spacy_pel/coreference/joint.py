"""Joint linking: what the mentions of a corpus say of each other decides with what the KB says.

An edge's score is a log-odds: that the mention's best candidate is right (the linker's calibrated
probability), or that two mentions mean the same (a sigmoid of the cosine of their vectors). ArboEL
compares the inner products themselves. Those of mentions with each other and those of mentions with
entities are on one scale only if the encoder was trained on both.
"""

from typing import NamedTuple

import numpy as np

from ..kb.vectors.building import built_inverted_file
from ..kb.vectors.index import Candidates, RowFinder, VectorIndex
from ..kb.vectors.matrix import VectorMatrix
from .clusters import Clusters, MentionGraph, directed_clusters, undirected_clusters

# The most neighbours of a mention that count.
MAX_NEIGHBOURS = 8
# Up to this many mentions, each is compared with every other one. Above, an inverted file of FAISS
# finds them: the time of comparing all grows with the square of the number.
MAX_COMPARED = 50_000
# The lists of the inverted file that are looked at for a mention. At one million mentions in 2,000
# lists that is one mention in 125.
_PROBES = 16
_BATCH_SIZE = 8_192  # mentions searched at a time


class Neighbourhood(NamedTuple):
    """Which of a mention's neighbours count."""

    k: int  # how many of the nearest mentions count, at most; 0: none
    # The least probability that a neighbour that counts means the same (lambda in ArboEL).
    least: float
    # Whether a mention is joined to its own neighbours alone (``directed_clusters``).
    directed: bool


class JointSettings(NamedTuple):
    """How the mentions of a corpus are linked together. ``pel calibrate --jointly`` fits it."""

    # What the cosine of two mentions is multiplied by.
    slope: float
    intercept: float  # what is added to the product, for the log-odds that they mean the same
    linking: Neighbourhood  # the neighbours that count when mentions are linked
    discovery: Neighbourhood  # those that count when entities are looked for that the KB lacks
    # The number of candidates that were reranked when it was fitted, as in ``Calibration``.
    reranked: int = 0


def log_odds_of(probabilities: np.ndarray) -> np.ndarray:
    """The log-odds of probabilities, float32; inf for 1 and -inf for 0."""
    with np.errstate(divide="ignore"):
        p = np.asarray(probabilities, dtype=np.float64)
        return (np.log(p) - np.log1p(-p)).astype(np.float32)


def mention_neighbours(matrix: VectorMatrix, k: int) -> Candidates:
    """The k nearest other mentions of each of n mentions, by inner products; equal ones by number."""
    n = len(matrix)
    numbers = np.full((n, k), -1, dtype=np.int64)
    scores = np.full((n, k), -np.inf, dtype=np.float32)
    if not n or not k:
        return Candidates(numbers, scores)
    finder = RowFinder(built_inverted_file(matrix), _PROBES) if n > MAX_COMPARED else None
    index = VectorIndex(matrix, np.arange(n), finder)
    for start in range(0, n, _BATCH_SIZE):
        own = np.arange(start, min(n, start + _BATCH_SIZE))
        found = index.search(matrix.take(own), k + 1)
        left_out = found.numbers == own[:, None]  # the mention itself; else the last
        left_out[~left_out.any(axis=1), -1] = True
        numbers[own] = found.numbers[~left_out].reshape(len(own), k)
        scores[own] = found.scores[~left_out].reshape(len(own), k)
    return Candidates(numbers, scores)


def joint_clusters(
    neighbours: Candidates,
    entities: np.ndarray,
    probabilities: np.ndarray,
    settings: JointSettings,
    counted: Neighbourhood,
) -> Clusters:
    """Cluster the n mentions of a corpus.

    Args:
        neighbours: The nearest mentions of each and their scores, [n, k] (``mention_neighbours``).
        entities: int64 [n], the best candidate of each mention, by a number that has the order of
            its id; -1 for NIL.
        probabilities: Float [n], the probability that it is right; 1 for one that is certain.
        settings: How scores are read.
        counted: The neighbours that count.
    """
    odds = settings.slope * neighbours.scores.astype(np.float64) + settings.intercept
    graph = MentionGraph(
        neighbours.numbers, odds.astype(np.float32), entities, log_odds_of(probabilities)
    )
    of_counted = graph.without(counted.k, float(log_odds_of(np.float64(counted.least))))
    return (directed_clusters if counted.directed else undirected_clusters)(of_counted)
