"""Build approximate indexes, and measure their recall of exact search."""

import errno
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .index import (
    FAST_SCAN_KIND,
    Candidates,
    RowFinder,
    VectorIndex,
    imported_faiss,
    one_faiss_thread,
)
from .matrix import VectorMatrix

MAX_SCANNED_ROWS = 2_000_000  # a fast scan of all codes up to here; above, an inverted file
_SEED = 0
_TRAINING_ROWS = 20_000  # for the codes of a fast scan
_MAX_FINE_DIM = 192  # shorter rows need a code for each number, or too many would be scored again
_TRAINING_ROWS_PER_CENTRE = 50  # for k-means
_ITERATIONS = 8
DEPTH = 64
_N_QUERIES = 512
_NOISE = 0.5  # relative to the length of a row; the cosine of a query and its row is about 0.9
# The recall required at 1 and 64 entities.
_LIST_RECALL, _CODE_RECALL = {"1": 0.995, "64": 0.95}, {"1": 0.999, "64": 0.99}
_MARGIN = 2  # on the lists that the sample needs: mentions are farther from rows than the sample
_MIN_OVERSAMPLING = 4  # enough where a row represents other rows of its entity


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
    if len(matrix) <= MAX_SCANNED_ROWS:
        coded = None if alike is None else representative_rows(matrix, row_entities, alike)
        index, effort = built_fast_scan(matrix, coded), "oversampling"
        about = {"kind": FAST_SCAN_KIND, "codes": index.ntotal}
    else:
        index, effort, about = built_inverted_file(matrix), "probes", {"kind": "SQ8"}
    chosen, recall = chosen_effort(matrix, row_entities, index)
    try:
        imported_faiss().write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(errno.ENOSPC, "the vectors could not be written whole") from error
    return {**about, effort: chosen, "recall": recall}


def built_fast_scan(matrix: VectorMatrix, coded: np.ndarray | None = None) -> Any:
    """Build a deterministic FAISS index of the codes of some rows, int64, or of all."""
    faiss, dim = imported_faiss(), matrix.dim
    # One code for two numbers needs an even dimension. It suffices for long vectors, and for rows that
    # share codes, because then more rows than entities are found.
    halved = dim % 2 == 0 and (coded is not None or dim > _MAX_FINE_DIM)
    pieces = dim // 2 if halved else dim
    codes = faiss.IndexPQFastScan(dim, pieces, 4, faiss.METRIC_INNER_PRODUCT)
    codes.pq.cp.seed = _SEED
    codes.pq.cp.min_points_per_centroid = 1  # no warning
    sample = matrix.take(_drawn(len(matrix), _TRAINING_ROWS))
    with one_faiss_thread():  # several took minutes on a busy machine, not 1 s
        codes.train(np.resize(sample, (max(len(sample), 16), dim)))
    if coded is None:
        for _, block in matrix.blocks():
            codes.add(np.ascontiguousarray(block))
        return codes
    numbered = faiss.IndexIDMap(codes)
    for rows, block in matrix.blocks(coded):
        numbered.add_with_ids(block, rows)
    return numbered


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


def built_inverted_file(matrix: VectorMatrix) -> Any:
    """Build a deterministic FAISS inverted file of all rows, with one byte per number."""
    faiss, n_lists = imported_faiss(), min(len(matrix), int(2 * len(matrix) ** 0.5))
    ivf = faiss.index_factory(matrix.dim, f"IVF{n_lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    ivf.cp.niter, ivf.cp.spherical, ivf.cp.seed = _ITERATIONS, True, _SEED
    ivf.cp.min_points_per_centroid, ivf.cp.max_points_per_centroid = 1, _TRAINING_ROWS_PER_CENTRE
    ivf.train(matrix.take(_drawn(len(matrix), n_lists * _TRAINING_ROWS_PER_CENTRE)))
    for _, block in matrix.blocks():
        ivf.add(block)
    return ivf


def chosen_effort(
    matrix: VectorMatrix, row_entities: np.ndarray, index: Any
) -> tuple[int, dict[str, float | int]]:
    """Choose the effort of a ``RowFinder`` of this index, and measure its recall.

    The effort is the smallest power of 2 with the required recall. For lists, a margin multiplies it. For
    rows that share codes, it is the minimum, because a greater effort does not help.

    Half of the queries are rows with noise. The others lie midway between two rows, far from the centres of
    lists, so that their nearest rows are in several lists.

    Returns:
        The effort, and the recall ("1", "64") with the number of queries ("queries").
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

    def measured(effort: int) -> dict[str, float | int]:
        searched = VectorIndex(matrix, row_entities, RowFinder(index, effort))
        first = recall(searched.search(queries, 1), truth)["1"]
        return {**recall(searched.search(queries, DEPTH), truth), "1": first, "queries": len(rows)}

    finder = RowFinder(index, 1)
    n_lists = finder.n_lists
    effort, wanted = (1, _LIST_RECALL) if n_lists else (_MIN_OVERSAMPLING, _CODE_RECALL)
    max_effort, reached = n_lists or (effort if finder.finds_entities else np.inf), measured(effort)
    # Without lists this ends where search becomes exact.
    while effort < max_effort and any(reached[at] < share for at, share in wanted.items()):
        effort *= 2
        reached = measured(effort)
    if n_lists:
        effort = min(_MARGIN * effort, n_lists)
        reached = measured(effort)
    return effort, reached


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
