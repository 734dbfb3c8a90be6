"""Search over proxies: rows are found, exactly scored, and entities are what is returned."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import PelError
from ...system.threads import in_threads
from .exact import has_gpu, imported_faiss, nearest_of_all
from .fast_scan import FAST_SCAN_KIND, FastScan
from .inner_products import inner_products
from .inverted_file import InvertedFile, RowSelection
from .matrix import VectorMatrix, mapped
from .projection import Projection

_CELLS = 1 << 19  # rows found, over all queries of a chunk: bounds the memory of a search
_TOLERANCE = 1e-5  # of the best score: more than float32 sums in another order differ by
_OVERSAMPLING = 4  # rows retrieved for an entity wanted, where every row is looked at
_SPARE = 16  # entities wanted besides
_COMPARED = 48  # entities scored besides by all of their rows, where rows found stand for others
_FEW_ROWS = 50_000  # allowed rows that are quicker looked at one by one than found
_GPU_ROWS = 300_000  # rows that a GPU looks at quicker than a CPU at their codes


class Candidates(NamedTuple):
    """The best entities of n queries, by score descending, then number ascending.

    numbers: int64 [n, k], entity numbers; -1 where the index holds fewer than k entities.
    scores: float32 [n, k], inner products; -inf there.
    """

    numbers: np.ndarray
    scores: np.ndarray


class VectorIndex:
    """Rows of vectors, each the proxy of an entity; several rows may stand for one entity."""

    def __init__(
        self,
        matrix: VectorMatrix,
        row_entities: np.ndarray,
        approximate: InvertedFile | FastScan | None = None,
        projection: Projection | None = None,
    ) -> None:
        """row_entities: integers [n_rows], the entity of each row.

        approximate: finds the rows near to a query; without it every row is looked at.
        projection: what the rows are in, if they are not as long as queries are.
        """
        if len(row_entities) != len(matrix):
            raise ValueError(f"{len(row_entities)} row entities, {len(matrix)} vectors")
        imported_faiss()
        self.row_entities = row_entities
        self._matrix = matrix
        self._approximate = approximate
        self._projection = projection
        self._remembered: tuple[np.ndarray, RowSelection] | None = None

    @classmethod
    def from_vectors(cls, vectors: np.ndarray, row_entities: np.ndarray) -> VectorIndex:
        """An exact index in memory, of float32 vectors [n_rows, dim]."""
        return cls(VectorMatrix(np.ascontiguousarray(vectors, dtype=np.float32)), row_entities)

    @property
    def dim(self) -> int:
        """Length of the queries."""
        return self._projection.dim if self._projection else self._matrix.dim

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Candidates:
        """The k best entities of each query, scored by the best of their rows.

        vectors: float32 [n, dim]. allowed: booleans [n_entities], to find these entities alone; of
        a read-only array what follows from it is remembered, for the next search.
        A score is the inner product with the row as it is stored, or lifted out of its projection. The
        answer to a query does not depend, to the last bit, on the other queries of the call.
        Without an approximate index it is exact; with one, k entities are found wherever there are
        k.
        Raises PelError for k below 1, a wrong shape, or NaN or infinity.
        """
        queries = self._checked(vectors, k)
        selection = None if allowed is None else self._selection(allowed)
        n_rows = self._n_rows(selection)
        numbers = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        pending, effort = np.arange(len(queries) if n_rows else 0), 1
        while len(pending):
            depth = min(effort * self._enough(k), n_rows)

            def fill(chunk: np.ndarray) -> np.ndarray:
                found, complete = self._best_entities(queries[chunk], k, depth, effort, selection)
                numbers[chunk], scores[chunk] = found
                return chunk[~complete]

            pending = np.concatenate(self._for_chunks(fill, pending, depth, selection))
            effort *= 2
        return Candidates(numbers, scores)

    def _for_chunks(
        self,
        work: Callable[[np.ndarray], np.ndarray],
        queries: np.ndarray,
        depth: int,
        selection: RowSelection | None,
    ) -> list[np.ndarray]:
        """What ``work`` returns for chunks of the queries, whose memory is bounded.

        Exact search is one product of matrices, which numpy shares out among cores, and all else is
        done for each query alone: there each core has chunks of its own, as many as the others.
        """
        faiss = imported_faiss()
        exact = self._is_exact(depth, selection)
        n_threads = 1 if exact else faiss.omp_get_max_threads()
        rounds = -(-len(queries) * depth // (_CELLS * n_threads))
        chunks = np.array_split(queries, min(len(queries), max(1, rounds) * n_threads))
        return in_threads(work, chunks, n_threads, partial(faiss.omp_set_num_threads, 1))

    def nearest_rows(self, vectors: np.ndarray, n: int) -> np.ndarray:
        """The n best rows of each query, or all if there are fewer: int64 [queries, n], best first.

        Several may be of one entity. With an approximate index -1 stands for a row that was not
        found, and the order is that of its own scores. Raises PelError as ``search`` does.
        """
        queries = self._checked(vectors, n)
        return self._nearest(queries, min(n, len(self.row_entities)), 1, None)[1]

    def _checked(self, vectors: np.ndarray, k: int) -> np.ndarray:
        if k < 1:
            raise PelError(f"k is {k}", "ask for 1 candidate or more")
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise PelError(
                f"queries of shape {queries.shape} for an index of {self.dim} dimensions",
                "use the encoder that made its vectors",
            )
        if not np.isfinite(queries).all():
            raise PelError("a query holds NaN or infinity", "check the weights of the encoder")
        return self._projection.queries(queries) if self._projection else queries

    def _selection(self, allowed: np.ndarray) -> RowSelection:
        """The rows of the allowed entities."""
        remembered = self._remembered
        if remembered is not None and remembered[0] is allowed:
            return remembered[1]
        mask = allowed[self.row_entities]
        rows = np.flatnonzero(mask)
        sizes = self._approximate.list_sizes(rows) if self._approximate else None
        selection = RowSelection(rows, np.packbits(mask, bitorder="little"), sizes)
        self._remembered = None if allowed.flags.writeable else (allowed, selection)
        return selection

    def _n_rows(self, selection: RowSelection | None) -> int:
        return len(self.row_entities if selection is None else selection.rows)

    def _enough(self, k: int) -> int:
        """How many rows are to be found so that the k best entities are likely among theirs."""
        oversampling = self._approximate.oversampling if self._approximate else _OVERSAMPLING
        return oversampling * (k + _SPARE)

    def _is_exact(self, depth: int, selection: RowSelection | None) -> bool:
        """Whether every row, or every one of the selection, is looked at."""
        few = selection is not None and len(selection.rows) <= _FEW_ROWS
        return self._approximate is None or few or not self._approximate.suits(depth, selection)

    def _nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows [n, depth] found, best first as far as can be told without the matrix."""
        if self._is_exact(depth, selection):
            rows = None if selection is None else selection.rows
            return nearest_of_all(self._matrix, queries, depth, rows)
        return self._approximate.nearest(queries, depth, effort, selection)

    def _finds_all(self, depth: int, effort: int, selection: RowSelection | None) -> bool:
        """Whether ``_nearest`` finds every row."""
        exact = self._is_exact(depth, selection) or self._approximate.sees_all(effort, selection)
        return depth == self._n_rows(selection) and exact

    def _best_entities(
        self,
        queries: np.ndarray,
        k: int,
        depth: int,
        effort: int,
        selection: RowSelection | None,
    ) -> tuple[Candidates, np.ndarray]:
        """The best entities of the rows found, and which queries are answered by them, [n].

        A query is answered if k entities score above all that the rows that were not found may
        score: the lowest score found, and as much as scores were found too low by. Where scores
        are too rough to tell, it is if it has k entities and as many rows as were measured to do.
        """
        found_scores, found = self._nearest(queries, depth, effort, selection)
        exact = self._is_exact(depth, selection)
        if not exact and self._approximate.finds_entities:
            return self._best_found(queries, found, k)
        if exact:
            found = self._decisive(found_scores, found, k)
        scores = self._exact_scores(queries, found)
        there = found >= 0
        errors = np.subtract(scores, found_scores, where=there, out=np.zeros_like(scores))
        tolerance = _TOLERANCE * np.abs(scores).max(axis=1, where=there, initial=0)
        # -inf if there were fewer rows than places.
        reach = found_scores[:, -1] + errors.max(axis=1) + tolerance
        entities = np.where(there, np.asarray(self.row_entities)[found], -1)
        order = np.lexsort((entities, -scores), axis=1)
        entities = np.take_along_axis(entities, order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
        first = _first_occurrences(entities) & (entities >= 0)
        if exact or self._approximate.bounds:
            complete = (first & (scores > reach[:, None])).sum(axis=1) >= k
        else:
            complete = (first.sum(axis=1) >= k) & (there.sum(axis=1) >= self._enough(k))
        complete |= self._finds_all(depth, effort, selection)
        return _compacted(entities, scores, first, k), complete

    def _best_found(
        self, queries: np.ndarray, found: np.ndarray, k: int
    ) -> tuple[Candidates, np.ndarray]:
        """As ``_best_entities``: of the entities whose rows found are the best, somewhat more than
        k, the best by all of their rows."""
        order = np.argsort(-self._exact_scores(queries, found), axis=1, kind="stable")
        found = np.take_along_axis(found, order, axis=1)
        there = found >= 0
        entities = np.where(there, np.asarray(self.row_entities)[found], -1)
        first = _first_occurrences(entities) & there
        rank = first.cumsum(axis=1)
        n_compared = k + k // 2 + _COMPARED
        lines, places = np.nonzero(first & (rank <= n_compared))
        numbers = entities[lines, places]
        starts = self._first_rows[numbers]
        counts = self._first_rows[numbers + 1] - starts
        behind = counts.cumsum()
        rows = np.arange(counts.sum()) + np.repeat(starts - behind + counts, counts)
        scores = inner_products(self._matrix, queries, np.repeat(lines, counts), rows)
        compared = Candidates(
            np.full((len(queries), n_compared), -1, dtype=np.int64),
            np.full((len(queries), n_compared), -np.inf, dtype=np.float32),
        )
        compared.numbers[lines, rank[lines, places] - 1] = numbers
        best = np.maximum.reduceat(scores, behind - counts)
        compared.scores[lines, rank[lines, places] - 1] = best
        order = np.lexsort((compared.numbers, -compared.scores), axis=1)[:, :k]
        complete = (rank[:, -1] >= k) & (there.sum(axis=1) >= self._enough(k))
        return Candidates(*(np.take_along_axis(x, order, axis=1) for x in compared)), complete

    @cached_property
    def _first_rows(self) -> np.ndarray:
        """The first row of each entity, int64 [n_entities + 1], which have theirs side by side."""
        n_entities = int(self.row_entities[-1]) + 1
        return np.searchsorted(self.row_entities, np.arange(n_entities + 1))

    def _decisive(self, scores: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
        """The rows found, best first, but -1 for those too far behind to be among the k best
        entities, whatever the last bits of their scores."""
        entities = np.where(rows >= 0, np.asarray(self.row_entities)[rows], -1)
        rank = _first_occurrences(entities).cumsum(axis=1)
        last = np.where(rank[:, -1] >= k, (rank >= k).argmax(axis=1), rows.shape[1] - 1)
        floor = np.take_along_axis(scores, last[:, None], axis=1)
        slack = 2 * _TOLERANCE * np.abs(scores[:, :1])
        return np.where(scores >= floor - slack, rows, -1)

    def _exact_scores(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Inner products [n, m] of each query with its rows [n, m]; -inf for row -1."""
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        places = np.nonzero(rows >= 0)
        scores[places] = inner_products(self._matrix, queries, places[0], rows[places])
        return scores


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


def opened_rows(folder: Path, entry: dict[str, Any]) -> tuple[VectorMatrix, np.ndarray]:
    """The rows of a segment's "vectors" entry in a manifest, and the entity of each, mapped.

    Raises PelError if a file cannot be read.
    """
    scales = entry["scales_file"]
    matrix = VectorMatrix.opened(folder / entry["file"], folder / scales if scales else None)
    return matrix, mapped(folder / entry["rows_file"])


def opened_index(folder: Path, entry: dict[str, Any], dim: int) -> VectorIndex:
    """The index of a segment's "vectors" entry in a manifest, mapped into memory.

    Raises PelError if a file cannot be read or is of another dimension.
    """
    matrix, row_entities = opened_rows(folder, entry)
    index = VectorIndex(
        matrix, row_entities, _opened_approximate(folder, entry), opened_projection(folder, entry)
    )
    if index.dim != dim:
        raise PelError(
            f"{folder / entry['file']}: {index.dim} dimensions, expected {dim}",
            "embed the KB again",
        )
    return index


def opened_projection(folder: Path, entry: dict[str, Any]) -> Projection | None:
    """What the rows of a segment's "vectors" entry are in; None if they are whole.

    Raises PelError if its file cannot be read.
    """
    name = entry.get("basis_file")  # manifests had none before KBs could be reduced
    return Projection.opened(folder / name) if name else None


def _opened_approximate(folder: Path, entry: dict[str, Any]) -> InvertedFile | FastScan | None:
    settings = entry["index"]
    if settings is None:
        return None
    if settings["kind"] != FAST_SCAN_KIND:
        return InvertedFile.opened(folder, settings)
    on_gpu = entry["rows"] <= _GPU_ROWS and has_gpu()
    return None if on_gpu else FastScan.opened(folder, settings)
