"""The nearest mentions of each mention of a corpus."""

from __future__ import annotations

import numpy as np

from ..kb.vectors.index import Candidates, VectorIndex
from ..kb.vectors.inverted_file import InvertedFile, built_inverted_file
from ..kb.vectors.matrix import VectorMatrix

# Up to this many mentions, each is compared with every other one. Above, an inverted file of FAISS
# finds them: the time of comparing all grows with the square of the number.
COMPARED = 50_000
# The lists of the inverted file that are looked at for a mention. At one million mentions in 2,000
# lists that is one mention in 125.
_PROBES = 16
_TOGETHER = 8_192  # mentions searched at a time


def mention_neighbours(matrix: VectorMatrix, k: int) -> Candidates:
    """The k nearest other mentions of each mention, by the inner products of their vectors.

    Args:
        matrix: The vectors of n mentions, in memory or in a file.
        k: The number of neighbours.

    Returns:
        Numbers of mentions, int64 [n, k], -1 where there are fewer, and scores, float32 [n, k], best
        first; equal scores by number.
    """
    n = len(matrix)
    if not n or not k:
        return Candidates(np.empty((n, k), dtype=np.int64), np.empty((n, k), dtype=np.float32))
    finder = None
    if n > COMPARED:
        finder = InvertedFile(built_inverted_file(matrix, "SQ8"), _PROBES)
    index = VectorIndex(matrix, np.arange(n), finder)
    numbers = np.full((n, k), -1, dtype=np.int64)
    scores = np.full((n, k), -np.inf, dtype=np.float32)
    for start in range(0, n, _TOGETHER):
        own = np.arange(start, min(n, start + _TOGETHER))
        numbers[own], scores[own] = _without(own, index.search(matrix.take(own), k + 1))
    return Candidates(numbers, scores)


def _without(own: np.ndarray, found: Candidates) -> Candidates:
    """What was found, less the mentions themselves; less the last where they were not found."""
    itself = found.numbers == own[:, None]
    itself[~itself.any(axis=1), -1] = True
    width = found.numbers.shape[1] - 1
    return Candidates(*(array[~itself].reshape(len(own), width) for array in found))
