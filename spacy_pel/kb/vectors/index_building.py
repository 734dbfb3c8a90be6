"""Build approximate indexes, and measure their recall of exact search."""

import errno
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from .index import (
    LIST_KIND,
    MAPPED_KIND,
    Candidates,
    RowFinder,
    VectorIndex,
    imported_faiss,
)
from .matrix import VectorMatrix

MAX_CODED_ROWS = 2_000_000  # up to here, lists have 4-bit codes in memory; above, they are mapped
_SEED = 0
_MAX_FINE_DIM = 192  # shorter rows need a code for each number, or too many would be scored again
_TRAINING_ROWS_PER_CENTRE = 50  # for k-means
_ITERATIONS = 8
DEPTH = 64
_N_QUERIES = 512
_NOISE = 0.5  # relative to the length of a row; the cosine of a query and its row is about 0.9
# The recall required at 1 and 64 entities, relative to that of all lists.
_RECALL = {"1": 0.995, "64": 0.95}
_MARGIN = 2  # on the lists that the sample needs: mentions are farther from rows than the sample
# The largest share of lists of 4-bit codes to read. A mention's nearest names are in the nearest lists, its
# eighth in any. With 0.25, FAISS takes twice as long, and 1 in 800 links of MeSH differs.
_MAX_SHARE = 0.1


def write_index(
    path: Path, matrix: VectorMatrix, row_entities: np.ndarray, alike: float | None
) -> dict[str, Any]:
    """Write a FAISS index of the rows, and return its entry in the KB's settings.

    Args:
        path: The file to write.
        matrix: The rows.
        row_entities: The entity of each row: integers [n_rows], ascending.
        alike: The minimum cosine of ``representative_rows``; None: each row has a code.

    Raises:
        OSError: The disk is full.
    """
    kind = LIST_KIND if len(matrix) <= MAX_CODED_ROWS else MAPPED_KIND
    coded = None
    if alike is not None and kind == LIST_KIND:
        coded = representative_rows(matrix, row_entities, alike)
    index = built_lists(matrix, kind, coded)
    max_probes = index.nlist if kind == MAPPED_KIND else ceil(_MAX_SHARE * index.nlist)
    probes, recall = chosen_probes(matrix, row_entities, index, max_probes)
    try:
        imported_faiss().write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(errno.ENOSPC, "the vectors could not be written whole") from error
    return {"kind": kind, "codes": index.ntotal, "probes": probes, "recall": recall}


def built_lists(matrix: VectorMatrix, kind: str, coded: np.ndarray | None = None) -> Any:
    """Build a deterministic FAISS index of the codes of some rows, int64 ascending, or of all, in lists."""
    faiss, dim = imported_faiss(), matrix.dim
    rows = np.arange(len(matrix)) if coded is None else coded
    n_lists = min(len(rows), int((2 if kind == MAPPED_KIND else 1) * len(rows) ** 0.5))
    # One code for two numbers needs an even dimension. It suffices for long vectors, and for rows that
    # share codes, because then more rows than entities are found.
    halved = dim % 2 == 0 and (coded is not None or dim > _MAX_FINE_DIM)
    codes = "SQ8" if kind == MAPPED_KIND else f"PQ{dim // 2 if halved else dim}x4fsr"
    ivf = faiss.index_factory(dim, f"IVF{n_lists},{codes}", faiss.METRIC_INNER_PRODUCT)
    ivf.cp.niter, ivf.cp.spherical, ivf.cp.seed = _ITERATIONS, True, _SEED
    ivf.cp.min_points_per_centroid, ivf.cp.max_points_per_centroid = 1, _TRAINING_ROWS_PER_CENTRE
    if kind == LIST_KIND:
        ivf.pq.cp.seed, ivf.pq.cp.min_points_per_centroid = _SEED, 1
    sample = matrix.take(rows[_drawn(len(rows), n_lists * _TRAINING_ROWS_PER_CENTRE)])
    ivf.train(np.resize(sample, (max(len(sample), 16), dim)))
    for numbers, block in matrix.blocks(coded):
        ivf.add_with_ids(np.ascontiguousarray(block), numbers)
    return ivf


def representative_rows(matrix: VectorMatrix, row_entities: np.ndarray, alike: float) -> np.ndarray:
    """Choose rows so that each row has a cosine of at least ``alike`` to a chosen row of its entity.

    The choice is greedy. The next row is the first of those that represent the most remaining rows.

    Returns:
        The numbers of the chosen rows, int64, ascending.
    """
    bounds = np.flatnonzero(np.diff(row_entities, prepend=-1, append=-1))
    chosen = np.zeros(len(matrix), dtype=bool)
    for start, stop in pairwise(bounds):
        rows = matrix.take(np.arange(start, stop))
        units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        similar = units @ units.T >= alike
        np.fill_diagonal(similar, True)
        remaining = np.ones(len(rows), dtype=bool)
        while remaining.any():
            best = (similar & remaining & remaining[:, None]).sum(axis=1).argmax()
            chosen[start + best] = True
            remaining &= ~similar[best]
    return np.flatnonzero(chosen)


def chosen_probes(
    matrix: VectorMatrix, row_entities: np.ndarray, index: Any, max_probes: int
) -> tuple[int, dict[str, float | int]]:
    """Choose the number of lists to read, and measure its recall.

    It is the smallest power of 2 with the required recall, times a margin, but at most ``max_probes``.

    Half of the queries are rows with noise. The others lie midway between two rows, far from the centres of
    lists, so that their nearest rows are in several lists.

    Returns:
        The number, and the recall ("1", "64") with the number of queries ("queries").
    """
    random = np.random.default_rng(_SEED)
    rows = _drawn(len(matrix), _N_QUERIES, random)
    vectors = matrix.take(rows)[random.permutation(len(rows))]
    between = vectors + np.roll(vectors, 1, axis=0)
    noise = random.standard_normal(vectors.shape, dtype=np.float32)
    noise *= _NOISE / np.sqrt(matrix.dim) * np.linalg.norm(vectors, axis=1, keepdims=True)
    half = len(rows) // 2
    queries = np.concatenate([(vectors + noise)[:half], between[half:]])
    truth = VectorIndex(matrix, row_entities).search(queries, DEPTH)

    def measured(probes: int) -> dict[str, float | int]:
        finder = RowFinder(index, probes, len(matrix))
        searched = VectorIndex(matrix, row_entities, finder)
        first = recall(searched.search(queries, 1), truth)["1"]
        return {**recall(searched.search(queries, DEPTH), truth), "1": first, "queries": len(rows)}

    most, probes = measured(index.nlist), 1
    while probes < max_probes:
        reached = measured(probes)
        if all(reached[at] >= share * most[at] for at, share in _RECALL.items()):
            break
        probes *= 2
    probes = min(_MARGIN * probes, max_probes)
    return probes, measured(probes)


def recall(candidates: Candidates, truth: Candidates) -> dict[str, float]:
    """Return the recall of the true first entities ("1") and of all true entities ("64")."""
    pairs = zip(candidates.numbers, truth.numbers)
    hits = sum(np.isin(line, true[true >= 0]).sum() for line, true in pairs)
    return {
        "1": round(float((candidates.numbers[:, 0] == truth.numbers[:, 0]).mean()), 4),
        "64": round(float(hits / (truth.numbers >= 0).sum()), 4),
    }


def _drawn(n: int, size: int, random: np.random.Generator | None = None) -> np.ndarray:
    """Draw at most ``size`` of n rows, ascending."""
    random = random or np.random.default_rng(_SEED)
    return np.sort(random.choice(n, min(n, size), replace=False))
