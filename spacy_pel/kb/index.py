"""Exact search over proxies: FAISS finds rows, entities are what is returned."""

from __future__ import annotations

import errno
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError

_CELLS = 1 << 21  # rows found, over all queries of a chunk: bounds the memory of a search
_FLOATS = 1 << 20  # numbers held at a time when scores are computed again
_TOLERANCE = 1e-5  # of the best score: more than float32 sums in another order differ by
_OVERSAMPLING = 4  # rows retrieved for an entity wanted: depth costs little, a second search much


class Candidates(NamedTuple):
    """The best entities of n queries, by score descending, then number ascending.

    numbers: int64 [n, k], entity numbers; -1 where the index holds fewer than k entities.
    scores: float32 [n, k], inner products; -inf there.
    """

    numbers: np.ndarray
    scores: np.ndarray


class VectorIndex:
    """Rows of vectors, each the proxy of an entity; several rows may stand for one entity."""

    def __init__(self, row_entities: np.ndarray, faiss_index: Any) -> None:
        """row_entities: integers [n_rows], the entity of each row of the (flat) FAISS index."""
        if len(row_entities) != faiss_index.ntotal:
            raise ValueError(f"{len(row_entities)} row entities, {faiss_index.ntotal} vectors")
        self.row_entities = row_entities
        self._faiss_index = faiss_index

    @classmethod
    def from_vectors(cls, vectors: np.ndarray, row_entities: np.ndarray) -> VectorIndex:
        """An index in memory, of float32 vectors [n_rows, dim]."""
        if vectors.ndim != 2:
            raise ValueError(f"vectors of shape {vectors.shape}; expected [n_rows, dim]")
        index = new_flat_index(vectors.shape[1])
        index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        return cls(row_entities, index)

    @property
    def dim(self) -> int:
        return self._faiss_index.d

    def search(self, vectors: np.ndarray, k: int) -> Candidates:
        """The k best entities of each query, scored by the best of their rows. Exact.

        vectors: float32 [n, dim]. The answer to a query does not depend, to the last bit, on the
        other queries of the call. Raises PelError for k below 1, a wrong shape, or NaN or infinity.
        """
        queries = self._checked(vectors, k)
        numbers = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        n_rows = len(self.row_entities)
        pending = np.arange(len(queries) if n_rows else 0)
        depth = min(_OVERSAMPLING * k + 1, n_rows)
        while len(pending):
            unfinished = []
            step = max(1, _CELLS // depth)
            for chunk in (pending[i : i + step] for i in range(0, len(pending), step)):
                found, complete = self._best_entities(queries[chunk], k, depth)
                numbers[chunk], scores[chunk] = found
                unfinished.append(chunk[~complete])
            pending = np.concatenate(unfinished)
            depth = min(2 * depth, n_rows)
        return Candidates(numbers, scores)

    def nearest_rows(self, vectors: np.ndarray, n: int) -> np.ndarray:
        """The n best rows of each query, or all if there are fewer: int64 [queries, n], best first.

        Several may be of one entity. Raises PelError as ``search`` does.
        """
        queries = self._checked(vectors, n)
        return self._faiss_index.search(queries, min(n, len(self.row_entities)))[1]

    def _checked(self, vectors: np.ndarray, k: int) -> np.ndarray:
        if k < 1:
            raise PelError(f"k is {k}; ask for 1 candidate or more")
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise PelError(
                f"queries of shape {queries.shape} for an index of {self.dim} dimensions; "
                "use the encoder that made its vectors"
            )
        if not np.isfinite(queries).all():
            raise PelError("a query holds NaN or infinity; check the weights of the encoder")
        return queries

    def _best_entities(
        self, queries: np.ndarray, k: int, depth: int
    ) -> tuple[Candidates, np.ndarray]:
        """The best entities among the `depth` best rows, and which queries are answered so, [n].

        A query is answered if k entities score above every row that was not retrieved.
        """
        rows = self._faiss_index.search(queries, depth)[1]
        scores = self._exact_scores(queries, rows)
        entities = np.asarray(self.row_entities)[rows]
        order = np.lexsort((entities, -scores), axis=1)
        entities = np.take_along_axis(entities, order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
        first = _first_occurrences(entities)
        if depth == len(self.row_entities):
            complete = np.ones(len(queries), dtype=bool)
        else:
            tolerance = _TOLERANCE * np.abs(scores).max(axis=1, keepdims=True)
            complete = (first & (scores > scores[:, -1:] + tolerance)).sum(axis=1) >= k
        return _compacted(entities, scores, first, k), complete

    def _exact_scores(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Inner products [n, m] of each query with its rows [n, m].

        FAISS's own scores depend, in the last bits, on the size of the batch and on where a row
        stands, so that equal vectors would not tie. Here each product is summed alone.
        """
        flat = rows.ravel()
        scores = np.empty(len(flat), dtype=np.float32)
        step = max(1, _FLOATS // self.dim)
        for start in range(0, len(flat), step):
            pairs = np.arange(start, min(start + step, len(flat)))
            products = self._faiss_index.reconstruct_batch(flat[pairs])
            products *= queries[pairs // rows.shape[1]]
            scores[pairs] = products.sum(axis=1)
        return scores.reshape(rows.shape)


def _first_occurrences(entities: np.ndarray) -> np.ndarray:
    """Booleans [n, m]: whether the entity stands at no earlier place of its line."""
    order = np.argsort(entities, axis=1, kind="stable")
    grouped = np.take_along_axis(entities, order, axis=1)
    starts = np.ones(entities.shape, dtype=bool)
    starts[:, 1:] = grouped[:, 1:] != grouped[:, :-1]
    first = np.empty_like(starts)
    np.put_along_axis(first, order, starts, axis=1)
    return first


def _compacted(entities: np.ndarray, scores: np.ndarray, kept: np.ndarray, k: int) -> Candidates:
    """The first k kept entities of each line, moved to the left, and filled up."""
    rank = kept.cumsum(axis=1) - 1
    lines, places = np.nonzero(kept & (rank < k))
    ranks = rank[lines, places]
    candidates = Candidates(
        np.full((len(entities), k), -1, dtype=np.int64),
        np.full((len(entities), k), -np.inf, dtype=np.float32),
    )
    candidates.numbers[lines, ranks] = entities[lines, places]
    candidates.scores[lines, ranks] = scores[lines, places]
    return candidates


def new_flat_index(dim: int) -> Any:
    """An empty FAISS index in memory, for exact search by inner product."""
    return imported_faiss().IndexFlatIP(dim)


def mapped_index(path: Path) -> Any:
    """The FAISS index of a file, mapped into memory; PelError if it cannot be read."""
    faiss = imported_faiss()
    try:
        # IO_FLAG_MMAP_IFC maps a flat index; IO_FLAG_MMAP would load it all.
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise _unreadable(path) from error


def mapped_rows(path: Path) -> np.ndarray:
    """The row entities of a file, int32 [n_rows], mapped; PelError if it cannot be read."""
    try:
        return np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise _unreadable(path) from error


def _unreadable(path: Path) -> PelError:
    return PelError(
        f"{path}: cannot be read; if the KB was embedded again, open it again; else run: "
        f"python -m spacy pel kb embed {path.parent} PIPELINE"
    )


def write_index(faiss_index: Any, path: Path) -> None:
    """Writes a FAISS index to a file; OSError if the disk is full."""
    try:
        imported_faiss().write_index(faiss_index, str(path))
    except RuntimeError as error:
        raise OSError(errno.ENOSPC, "the vectors could not be written whole") from error


def imported_faiss() -> ModuleType:
    """The module faiss; PelError if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise PelError(
            'FAISS is not installed; run: pip install "spacy-pel[cpu]"  '
            '(or "spacy-pel[gpu]" with a GPU)'
        ) from error
    return faiss
