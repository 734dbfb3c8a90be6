"""Search vectors: find rows, score them exactly, and return their entities.

FAISS's approximate indexes find rows near a query. ``VectorIndex`` computes their scores from the vectors
themselves. So a finder selects rows, and never decides their scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...errors import PelError, damaged
from ..pieces import runs
from .matrix import Projection, VectorMatrix

_BATCH_SIZE = 64  # queries of an exact search, which limits its memory
_GROUPS = 1 << 9  # of the rows of a block; their best scores give a lower bound for candidates
_CHUNK_SIZE = 1 << 19  # rows found for the queries of a chunk, which limits the memory
_TOLERANCE = 1e-5  # of the best score; float32 sums in another order differ by less
_SPARE_ENTITIES = 16  # to find in addition to k
_MIN_SHARE = 8  # finding more than one in so many rows is slower than exact search
_MAX_EXACT_ROWS = 50_000  # up to this many selected rows, exact search is faster
FAST_SCAN_KIND, LIST_KIND, MAPPED_KIND = "PQ4", "IVFPQ4", "SQ8"
_LIST_OVERSAMPLING = 4  # rows to find in lists per entity: more cost less than a second search
_SELECTION_FACTOR = 4  # on the rows read for a small selection, whose rows may be far from a query
# Up to these numbers of products and of queries one thread is faster: idle threads keep spinning.
_MAX_PRODUCTS_OF_THREAD, _MAX_QUERIES_OF_THREAD = 1 << 22, 64
# Queries of one search in lists. From 20 on FAISS compares them with the centres by BLAS, whose last bits
# depend on the size of the batch.
_LIST_BATCH_SIZE = 16


def imported_faiss() -> ModuleType:
    """Import faiss; PelError if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        remedy = 'run: pip install "spacy-pel[cpu]"  (or "spacy-pel[gpu]" with a GPU)'
        raise PelError("FAISS is not installed", remedy) from error
    return faiss


@contextmanager
def one_faiss_thread() -> Iterator[None]:
    """Run FAISS with one thread within the block: in short steps, threads wait for each other."""
    faiss = imported_faiss()
    n_threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(n_threads)


@cache
def gpu() -> Any:
    """Return FAISS's GPU resources; None without a GPU."""
    faiss = imported_faiss()
    has_gpu = hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0
    return faiss.StandardGpuResources() if has_gpu else None


def all_products(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the inner products of all queries and rows, float32, computed on a GPU if FAISS has one."""
    products: np.ndarray
    if gpu() is not None:
        faiss = imported_faiss()
        metric = faiss.METRIC_INNER_PRODUCT
        products = faiss.pairwise_distance_gpu(gpu(), queries, rows, metric=metric)
    elif queries.size * len(rows) <= _MAX_PRODUCTS_OF_THREAD:
        products = np.einsum("qd,rd->qr", queries, rows)
    else:  # numpy's BLAS is five to seven times as fast as that of FAISS's packages
        products = queries @ rows.T
    return products


class RowSelection(NamedTuple):
    """The rows to which a search is restricted."""

    rows: np.ndarray  # their numbers, int64, ascending
    bits: np.ndarray  # whether each row of all is selected: uint8, the lowest bit first

    def reach(self, depth: int) -> int:
        """Return the number of rows to find so that ``depth`` of them are selected on average."""
        return -(-depth * 8 * len(self.bits) // len(self.rows))


class RowFinder:
    """Find rows near a query approximately, by a FAISS index.

    Rows are in lists around centres, of which the nearest are read. Up to two million rows have 4-bit codes
    in memory (``IndexIVFPQFastScan``). Very similar rows of an entity, such as "lung cancers" and "cancers,
    lung", may share a code: then the index finds the entity, and all its rows are scored. More rows have one
    byte per number, mapped from their file (``IndexIVFScalarQuantizer``). Earlier versions wrote codes
    without lists (``IndexPQFastScan``), which are all scanned.

    ``effort`` is the number of lists to read; without lists, of rows to find per entity.
    """

    def __init__(self, index: Any, effort: int, n_rows: int) -> None:
        self.n_rows, self.finds_entities = n_rows, index.ntotal < n_rows
        self.n_lists: int = getattr(index, "nlist", 0)
        self.oversampling = _LIST_OVERSAMPLING if self.n_lists else effort
        self._index, self._probes = index, effort

    @classmethod
    def opened(cls, path: Path, found_by: dict[str, Any], matrix: VectorMatrix) -> RowFinder:
        """Open the index of a file, given its settings; PelError unless it is an index of these rows."""
        faiss, kind = imported_faiss(), found_by["kind"]
        try:
            flags = faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if kind == MAPPED_KIND else 0
            index = faiss.read_index(str(path), flags)
        except (RuntimeError, MemoryError) as error:
            raise damaged(path, "cannot be read") from error
        codes, n_codes = index, found_by.get("codes", len(matrix))
        if isinstance(index, faiss.IndexIDMap):
            codes = faiss.downcast_index(index.index)
            n_codes = index.id_map.size()
        types = {
            FAST_SCAN_KIND: faiss.IndexPQFastScan,
            LIST_KIND: faiss.IndexIVFPQFastScan,
            MAPPED_KIND: faiss.IndexIVFScalarQuantizer,
        }
        fits = isinstance(codes, types[kind]) and len(matrix) >= n_codes
        fits = fits and (index.ntotal, codes.ntotal, codes.d) == (n_codes, n_codes, matrix.dim)
        if not fits or kind != MAPPED_KIND and matrix.dim % max(codes.M, 1):
            raise damaged(path, f"is no index of {len(matrix)} vectors")
        if kind == MAPPED_KIND:
            # The operating system reads ahead. FAISS's threads would not survive a fork.
            faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
        effort = found_by["oversampling" if kind == FAST_SCAN_KIND else "probes"]
        return cls(index, effort, len(matrix))

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> np.ndarray:
        """Return approximately the best rows of each query, best first: int64 [n, depth]; -1 for none.

        A selection may have fewer rows. ``effort`` multiplies the number of lists to read.
        """
        if self.n_lists:
            faiss, chosen, probes = imported_faiss(), {}, effort * self._probes
            if selection is not None:  # the fewer rows are selected, the more are read
                share = len(selection.rows) / self.n_rows
                probes = int(probes * (1 + (_SELECTION_FACTOR - 1) * (1 - share)) / share) + 1
                chosen = {"sel": faiss.IDSelectorBitmap(selection.bits)}
            how = faiss.SearchParametersIVF(nprobe=min(probes, self.n_lists), **chosen)
            parts = np.split(queries, range(_LIST_BATCH_SIZE, len(queries), _LIST_BATCH_SIZE))
            return np.concatenate([self._index.search(p, depth, params=how)[1] for p in parts])
        with one_faiss_thread() if len(queries) <= _MAX_QUERIES_OF_THREAD else nullcontext():
            reach = selection.reach(depth) if selection else depth
            rows: np.ndarray = self._index.search(queries, reach)[1]
        if selection is None:
            return rows
        # FAISS's fast scan takes no selection
        bits = selection.bits.take(rows >> 3, mode="clip") >> (rows & 7).astype(np.uint8) & 1
        rows = np.where((bits == 1) & (rows >= 0), rows, -1)
        order = np.argsort(rows < 0, axis=1, kind="stable")[:, :depth]
        return np.take_along_axis(rows, order, axis=1)


class Candidates(NamedTuple):
    """The k best entities of n queries, [n, k], by descending score, then by number."""

    numbers: np.ndarray  # of the entities, int64; -1 where there are fewer than k
    scores: np.ndarray  # inner products, float32; -inf where there are fewer than k


def no_candidates(n: int, k: int) -> Candidates:
    """Return k empty places for each of n queries."""
    return Candidates(np.full((n, k), -1), np.full((n, k), -np.inf, dtype=np.float32))


def best_candidates(
    n: int, lines: np.ndarray, numbers: np.ndarray, scores: np.ndarray, k: int
) -> Candidates:
    """Return the k best numbers of each of n queries from scored pairs of a query and a number."""
    keys = lines * (numbers.max(initial=0) + 1) + numbers
    order = np.argsort(keys, kind="stable")  # fast if they already ascend
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1) != 0)
    candidates = no_candidates(n, k)
    if not len(starts):
        return candidates
    best, first = np.maximum.reduceat(scores[order], starts), order[starts]
    lines, numbers = lines[first], numbers[first]
    counts = np.bincount(lines, minlength=n)
    places = np.arange(len(lines)) - (counts.cumsum() - counts)[lines]
    wide = no_candidates(n, counts.max())
    wide.numbers[lines, places], wide.scores[lines, places] = numbers, best
    ranks = np.argsort(-wide.scores, axis=1, kind="stable")[:, :k]
    for column, all_values in zip(candidates, wide):
        column[:, : ranks.shape[1]] = np.take_along_axis(all_values, ranks, axis=1)
    return candidates


class VectorIndex:
    """An index of rows: vectors that represent entities. An entity may have several rows.

    Args:
        matrix: The rows.
        row_entities: The entity, or its rank, of each row: integers [n_rows], ascending.
        finder: Finds rows near a query approximately; None: search is exact.
        projection: The projection that shortened the rows.
        numbers: The numbers of ranks, which sort equal scores; None: entities are sorted by number.
    """

    def __init__(
        self,
        matrix: VectorMatrix,
        row_entities: np.ndarray,
        finder: RowFinder | None = None,
        projection: Projection | None = None,
        numbers: np.ndarray | None = None,
    ) -> None:
        imported_faiss()
        self.matrix, self.row_entities = matrix, row_entities
        self.projection, self._finder = projection, finder
        # The last one, -1, is the number of rank -1.
        self._numbers = None if numbers is None else np.append(numbers, -1).astype(np.int64)

    @classmethod
    def from_vectors(cls, vectors: np.ndarray, row_entities: np.ndarray) -> VectorIndex:
        """Return an exact index in memory of vectors [n_rows, dim]."""
        return cls(VectorMatrix(np.ascontiguousarray(vectors, dtype=np.float32)), row_entities)

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Candidates:
        """Return the k best entities of each query, scored by the best of their rows.

        A score is the inner product with the stored row (lifted, if it was projected). To the last bit,
        results do not depend on the other queries of the call. Without a finder, they are exact. With a
        finder, they still contain k entities if the index has k.

        Args:
            vectors: float32 [n, dim], the queries.
            k: The number of entities.
            allowed: bool, by entity number, which entities may be returned; None: all.

        Raises:
            PelError: k is below 1, or the queries have the wrong shape or hold NaN or infinity.
        """
        queries, selection = self._checked(vectors, k), self._selection(allowed)
        result, pending, effort = no_candidates(len(queries), k), np.arange(len(queries)), 1
        while len(pending) and (depth := self._depth(k, effort, selection)):
            step, missing = max(1, _CHUNK_SIZE // depth), []
            for chunk in np.split(pending, range(step, len(pending), step)):
                best, is_complete = self._approximate(queries[chunk], k, effort, selection)
                result.numbers[chunk], result.scores[chunk] = best
                missing.append(chunk[~is_complete])
            pending, effort = np.concatenate(missing), 2 * effort
        if len(pending):
            best = self._exact(queries[pending], k, selection, self.row_entities)
            result.numbers[pending], result.scores[pending] = best
        if self._numbers is None:
            return result
        return result._replace(numbers=self._numbers[result.numbers])

    def best_rows(
        self, vectors: np.ndarray, n: int, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the n best rows of each query, by score, then by row number. The search is exact.

        Returns:
            The scores, float32 [queries, n], and the row numbers, int64 [queries, n]; -inf and -1 for none.
        """
        queries, all_rows = self._checked(vectors, n), np.arange(len(self.matrix))
        rows, scores = self._exact(queries, n, self._selection(allowed), all_rows)
        return scores, rows

    def best_rows_of(
        self, vectors: np.ndarray, lines: np.ndarray, numbers: np.ndarray, first: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best row of each pair of a query and an entity, the first of equal rows.

        Args:
            vectors: float32 [queries, dim], the queries.
            lines: int64 [n], the query of each pair, ascending.
            numbers: int64 [n], the entity of each pair.
            first: Score only the first row of each entity.

        Returns:
            The scores, float32 [n], and the rows, int64 [n]; -inf and -1 for an entity without rows.
        """
        queries, (rows, places) = self._checked(vectors, 1), self.rows_of(numbers)
        if first:
            is_first = np.diff(places, prepend=-1) > 0
            rows, places = rows[is_first], places[is_first]
        scores = self.matrix.inner_products(queries, lines[places], rows)
        best, best_rows = np.full(len(lines), -np.inf, np.float32), np.full(len(lines), -1)
        np.maximum.at(best, places, scores)
        hits = np.flatnonzero(scores == best[places])[::-1]  # the last one written is the first row
        best_rows[places[hits]] = rows[hits]
        return best, best_rows

    def rows_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of entities, and the index of each row's entity in ``numbers``: int64."""
        if self._numbers is not None:
            places = np.searchsorted(self._numbers, numbers, sorter=self._order)
            ranks = self._order[np.minimum(places, len(self._order) - 1)]
            numbers = np.where(self._numbers[ranks] == numbers, ranks, -1)
        return self._rows_of(numbers)

    @cached_property
    def _order(self) -> np.ndarray:
        """The ranks by number."""
        assert self._numbers is not None
        return np.argsort(self._numbers, kind="stable")

    def _checked(self, vectors: np.ndarray, k: int) -> np.ndarray:
        """Return the queries as float32 [n, width], projected like the rows."""
        if k < 1:
            raise PelError(f"k is {k}", "ask for 1 candidate or more")
        queries = np.ascontiguousarray(vectors, dtype=np.float32)
        dim = self.projection.dim if self.projection else self.matrix.dim
        if queries.ndim != 2 or queries.shape[1] != dim:
            problem = f"queries of shape {queries.shape} for an index of {dim} dimensions"
            raise PelError(problem, "use the encoder that made its vectors")
        if not np.isfinite(queries).all():
            raise PelError("a query holds NaN or infinity", "check the weights of the encoder")
        return self.projection.projected_queries(queries) if self.projection else queries

    def _selection(self, allowed: np.ndarray | None) -> RowSelection | None:
        if allowed is None:
            return None
        of_ranks = allowed if self._numbers is None else allowed[self._numbers[:-1]]
        if of_ranks.all():
            return None
        mask = of_ranks[self.row_entities]
        return RowSelection(np.flatnonzero(mask), np.packbits(mask, bitorder="little"))

    @cached_property
    def _starts(self) -> np.ndarray:
        """The first row of each rank, then the number of rows twice: int32."""
        n_ranks = int(self.row_entities[-1]) + 1 if len(self.row_entities) else 0
        ranks = np.arange(n_ranks + 2, dtype=self.row_entities.dtype)  # else owners are converted
        return np.searchsorted(self.row_entities, ranks).astype(np.int32)

    def _rows_of(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        last = len(self._starts) - 2
        ranks = np.where((ranks >= 0) & (ranks < last), ranks, last)  # the last one has no rows
        starts = self._starts[ranks]
        counts = self._starts[ranks + 1] - starts
        return runs(starts, counts), np.repeat(np.arange(len(ranks)), counts)

    def _exact(
        self, queries: np.ndarray, k: int, selection: RowSelection | None, owners: np.ndarray
    ) -> Candidates:
        """Return the k best owners of rows by a scan of all rows."""
        result = no_candidates(len(queries), k)
        for start in range(0, len(queries), _BATCH_SIZE):
            batch = slice(start, start + _BATCH_SIZE)
            lines, rows = self._contenders(queries[batch], k, selection, owners)
            scores = self.matrix.inner_products(queries[batch], lines, rows)
            best = best_candidates(len(queries[batch]), lines, owners[rows], scores, k)
            result.numbers[batch], result.scores[batch] = best
        return result

    def _contenders(
        self, queries: np.ndarray, k: int, selection: RowSelection | None, owners: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a query and a row, int64, that may be among its k best owners."""
        floor, slack = np.full((len(queries), 1), -np.inf, np.float32), np.float32(0)
        pairs = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
        for numbers, block in self.matrix.blocks(selection.rows if selection else None):
            products = all_products(queries, block)
            self.matrix.check_finite(products)
            # The k-th best score of groups of owners is a lower bound for the k-th best owner.
            starts = np.flatnonzero(np.diff(owners[numbers], prepend=-1))
            starts = starts[:: max(1, len(starts) // max(_GROUPS, 8 * k))]
            group_best = np.maximum.reduceat(products, starts, axis=1)
            if group_best.shape[1] >= k:
                floor = np.maximum(floor, np.partition(group_best, -k, axis=1)[:, -k, None])
            highest = group_best.max(axis=1, keepdims=True)
            slack = np.maximum(slack, 2 * _TOLERANCE * np.abs(highest))
            high = np.flatnonzero(products >= floor - slack)
            lines, places = np.divmod(high, len(numbers))
            pairs.append((lines, numbers[places], products[lines, places]))
        lines, rows, rough = map(np.concatenate, zip(*pairs))
        best = best_candidates(len(queries), lines, owners[rows], rough, k)
        kept = rough >= np.ravel(best.scores[:, -1:] - slack)[lines]
        return lines[kept], rows[kept]

    def _depth(self, k: int, effort: int, selection: RowSelection | None) -> int:
        """Return the number of rows to ask the finder for; 0 if exact search is faster."""
        if self._finder is None or selection is not None and len(selection.rows) <= _MAX_EXACT_ROWS:
            return 0
        depth = effort * self._finder.oversampling * (k + _SPARE_ENTITIES)
        depth = selection.reach(depth) if selection else depth
        return depth if depth * _MIN_SHARE < self._finder.n_rows else 0

    def _approximate(
        self, queries: np.ndarray, k: int, effort: int, selection: RowSelection | None
    ) -> tuple[Candidates, np.ndarray]:
        """Return the best entities of the rows found, and whether each query is complete: [n].

        A query is complete if it has k entities, and as many rows as were measured to be enough.
        """
        finder, n = self._finder, len(queries)
        assert finder is not None  # ``_depth`` is 0 without one
        enough = finder.oversampling * (k + _SPARE_ENTITIES)
        nearest = finder.nearest(queries, effort * enough, effort, selection)
        if nearest.max(initial=0) >= len(self.row_entities) and self.matrix.path:
            raise damaged(self.matrix.path, f"has no row {nearest.max()}, which its index finds")
        lines, places = np.nonzero(nearest >= 0)
        rows, counts = nearest[lines, places], np.bincount(lines, minlength=n)
        if finder.finds_entities:  # a row represents other rows of its entity
            width = int(self.row_entities[-1]) + 1
            # np.unique takes ten times as long.
            keys = np.sort(lines * width + self.row_entities[rows])
            lines, entities = np.divmod(keys[np.diff(keys, prepend=-1) != 0], width)
            rows, places = self._rows_of(entities)
            lines = lines[places]
        scores = self.matrix.inner_products(queries, lines, rows)
        best = best_candidates(n, lines, self.row_entities[rows], scores, k)
        return best, (best.numbers[:, k - 1] >= 0) & (counts >= enough)
