"""Recall: how much of what exact search finds an approximate index finds, measured on a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from .finders import FastScan, InvertedFile, RowFinder
from .index import Candidates, VectorIndex
from .matrix import VectorMatrix

DEPTH = 64
_QUERIES = 512
_NOISE = 0.5  # relative to the length of a row; the cosine of a query and its row is about 0.9
_WANTED = 0.995
_MARGIN = 4  # factor on the lists that the sample needs: mentions are farther from rows than these
_WANTED_OF_CODES = {"1": 0.999, "64": 0.99}
_OVERSAMPLING = 4  # the least; it suffices where a row stands for other rows of its entity
_SEED = 0


Recall = dict[str, float | int]


def chosen_probes(matrix: VectorMatrix, row_entities: np.ndarray, ivf: Any) -> tuple[int, Recall]:
    """The number of lists of an inverted file that a search should look at, and its recall.

    It is the smallest power of 2 with enough recall for a sample of queries, times a margin.
    """
    sample, probes = _Sample(matrix, row_entities), 1
    while probes < ivf.nlist and min(sample.recall(InvertedFile(ivf, probes)).values()) < _WANTED:
        probes *= 2
    probes = min(_MARGIN * probes, ivf.nlist)
    return probes, {**sample.recall(InvertedFile(ivf, probes)), "queries": len(sample.queries)}


def chosen_oversampling(
    matrix: VectorMatrix, row_entities: np.ndarray, codes: Any
) -> tuple[int, Recall]:
    """The number of rows that ``FastScan`` should find for each entity wanted, and its recall.

    It is the smallest power of 2 with enough recall for a sample of queries: recall of the first
    entity when only one is wanted, and recall of 64 entities. Where rows share codes, it is the
    lowest number, because more would not help.
    """
    sample, oversampling = _Sample(matrix, row_entities), _OVERSAMPLING
    while True:  # this ends where search becomes exact
        finder = FastScan(codes, oversampling)
        found = {**sample.recall(finder), "1": sample.recall(finder, 1)["1"]}
        is_enough = all(found[at] >= share for at, share in _WANTED_OF_CODES.items())
        if is_enough or finder.finds_entities:
            return oversampling, {**found, "queries": len(sample.queries)}
        oversampling *= 2


class _Sample:
    """Queries to measure recall with, the same for the same matrix, and what they should find.

    Half of them are rows with noise. The others lie midway between two rows: far from the centre of
    any list, so that their nearest rows are in several lists.
    """

    def __init__(self, matrix: VectorMatrix, row_entities: np.ndarray) -> None:
        self._rows = matrix, row_entities
        random = np.random.default_rng(_SEED)
        rows = np.sort(random.choice(len(matrix), min(_QUERIES, len(matrix)), replace=False))
        vectors = matrix.take(rows)[random.permutation(len(rows))]
        between = vectors + np.roll(vectors, 1, axis=0)
        noise = random.standard_normal(vectors.shape, dtype=np.float32)
        noise *= _NOISE / np.sqrt(matrix.dim) * np.linalg.norm(vectors, axis=1, keepdims=True)
        half = len(rows) // 2
        self.queries = np.concatenate([(vectors + noise)[:half], between[half:]])
        self._truth = VectorIndex(matrix, row_entities).search(self.queries, DEPTH)

    def recall(self, finder: RowFinder, k: int = DEPTH) -> dict[str, float]:
        """The recall of a finder that is asked for k entities."""
        found = VectorIndex(*self._rows, finder).search(self.queries, k)
        return recall(found, Candidates(*(each[:, :k] for each in self._truth)))


def recall(found: Candidates, truth: Candidates) -> dict[str, float]:
    """The share found of the true first entities ("1"), and of all true entities ("64")."""
    pairs = zip(found.numbers, truth.numbers)
    hits = sum(np.isin(line, true[true >= 0]).sum() for line, true in pairs)
    return {
        "1": round(float((found.numbers[:, 0] == truth.numbers[:, 0]).mean()), 4),
        "64": round(float(hits / (truth.numbers >= 0).sum()), 4),
    }
