"""Builds approximate indexes, and measures how much of what exact search finds they find."""

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

SCANNED_ROWS = 2_000_000  # up to this many rows a fast scan of all codes; above, an inverted file
_SEED = 0
_TRAINED = 20_000  # rows that the codes of a fast scan are learnt from
_FEW_NUMBERS = 192  # rows this short need a code for each number, or too many would be scored again
_TRAINED_PER_CENTRE = 50  # rows that k-means sees for each centre
_ITERATIONS = 8
DEPTH = 64
_QUERIES = 512
_NOISE = 0.5  # relative to the length of a row; the cosine of a query and its row is about 0.9
_OF_LISTS, _OF_CODES = {"1": 0.995, "64": 0.95}, {"1": 0.999, "64": 0.99}  # the recall wanted
_MARGIN = 2  # factor on the lists that the sample needs: mentions are farther from rows than these
_LEAST = 4  # rows of codes; it suffices where a row stands for other rows of its entity


def write_index(
    path: Path, matrix: VectorMatrix, row_entities: np.ndarray, alike: float | None
) -> dict[str, Any]:
    """Writes a FAISS index of the rows; returns what a KB's settings say of it.

    ``alike``: see ``representative_rows``; None: each row has a code. OSError if the disk is full.
    """
    if len(matrix) <= SCANNED_ROWS:
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
    """A FAISS index of the codes of the coded rows, int64, or of all. The same rows give the same."""
    faiss, dim = imported_faiss(), matrix.dim
    # A code for 2 numbers needs an even count, and many numbers or rows that share codes: then more
    # rows are found than entities are wanted, so coarse codes do.
    halved = dim % 2 == 0 and (coded is not None or dim > _FEW_NUMBERS)
    pieces = dim // 2 if halved else dim
    codes = faiss.IndexPQFastScan(dim, pieces, 4, faiss.METRIC_INNER_PRODUCT)
    codes.pq.cp.seed = _SEED
    codes.pq.cp.min_points_per_centroid = 1  # no warning
    sample = matrix.take(_drawn(len(matrix), _TRAINED))
    with one_faiss_thread():  # on a busy machine several took minutes, not 1 s
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
    """Rows, int64, ascending, that can stand for all: each row is similar to one of them of its entity.

    Greedily: next is the first row that is similar to the most rows without a representative.
    """
    bounds = np.flatnonzero(np.diff(row_entities, prepend=-1, append=-1))
    chosen = np.zeros(len(matrix), dtype=bool)
    for start, stop in pairwise(bounds):
        rows = matrix.take(np.arange(start, stop))
        units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        near = units @ units.T >= alike
        np.fill_diagonal(near, True)
        left = np.ones(len(rows), dtype=bool)
        while left.any():
            best = (near & left & left[:, None]).sum(axis=1).argmax()
            chosen[start + best] = True
            left &= ~near[best]
    return np.flatnonzero(chosen)


def built_inverted_file(matrix: VectorMatrix) -> Any:
    """A FAISS inverted file of all rows, of one byte a number. The same rows give the same file."""
    faiss, n_lists = imported_faiss(), min(len(matrix), int(2 * len(matrix) ** 0.5))
    ivf = faiss.index_factory(matrix.dim, f"IVF{n_lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    ivf.cp.niter, ivf.cp.spherical, ivf.cp.seed = _ITERATIONS, True, _SEED
    ivf.cp.min_points_per_centroid, ivf.cp.max_points_per_centroid = 1, _TRAINED_PER_CENTRE
    ivf.train(matrix.take(_drawn(len(matrix), n_lists * _TRAINED_PER_CENTRE)))
    for _, block in matrix.blocks():
        ivf.add(block)
    return ivf


def chosen_effort(
    matrix: VectorMatrix, row_entities: np.ndarray, index: Any
) -> tuple[int, dict[str, float | int]]:
    """The effort of a ``RowFinder`` of this index, and its recall then.

    It is the smallest power of 2 with enough recall of the first entity and of 64 entities. Of lists it
    is that times a margin. Where rows share codes it is the lowest, because more would not help.

    Half of the queries are rows with noise. The others lie midway between two rows: far from the
    centre of any list, so that their nearest rows are in several lists.
    """
    random = np.random.default_rng(_SEED)
    rows = _drawn(len(matrix), _QUERIES, random)
    vectors = matrix.take(rows)[random.permutation(len(rows))]
    between = vectors + np.roll(vectors, 1, axis=0)
    noise = random.standard_normal(vectors.shape, dtype=np.float32)
    noise *= _NOISE / np.sqrt(matrix.dim) * np.linalg.norm(vectors, axis=1, keepdims=True)
    half = len(rows) // 2
    queries = np.concatenate([(vectors + noise)[:half], between[half:]])
    truth = VectorIndex(matrix, row_entities).search(queries, DEPTH)

    def measured(effort: int) -> dict[str, float | int]:
        searched = VectorIndex(matrix, row_entities, RowFinder(index, effort))
        found = recall(searched.search(queries, DEPTH), truth)
        first = recall(searched.search(queries, 1), truth)["1"]
        return {**found, "1": first, "queries": len(rows)}

    finder = RowFinder(index, 1)
    n_lists = finder.n_lists
    effort, wanted = (1, _OF_LISTS) if n_lists else (_LEAST, _OF_CODES)
    most, found = n_lists or (effort if finder.finds_entities else np.inf), measured(effort)
    # Without lists this ends where search becomes exact.
    while effort < most and any(found[at] < share for at, share in wanted.items()):
        effort *= 2
        found = measured(effort)
    if n_lists:
        effort = min(_MARGIN * effort, n_lists)
        found = measured(effort)
    return effort, found


def recall(found: Candidates, truth: Candidates) -> dict[str, float]:
    """The share found of the true first entities ("1"), and of all true entities ("64")."""
    pairs = zip(found.numbers, truth.numbers)
    hits = sum(np.isin(line, true[true >= 0]).sum() for line, true in pairs)
    return {
        "1": round(float((found.numbers[:, 0] == truth.numbers[:, 0]).mean()), 4),
        "64": round(float(hits / (truth.numbers >= 0).sum()), 4),
    }


def _drawn(n: int, most: int, random: np.random.Generator | None = None) -> np.ndarray:
    """At most so many of n rows, at random, ascending."""
    random = random or np.random.default_rng(_SEED)
    return np.sort(random.choice(n, min(n, most), replace=False))
