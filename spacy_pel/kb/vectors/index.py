"""Search over vectors: finds rows, scores them exactly, and returns their entities.

FAISS's approximate indexes find rows near a query, and ``VectorIndex`` scores these rows again, from the
vectors themselves. So a finder decides which rows are looked at, and never what they score.
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
from .matrix import Projection, VectorMatrix

_TOGETHER = 64  # queries of which all rows are looked at together: limits the memory of a search
_GROUPS = 1 << 9  # of the rows of a block, whose best scores tell how low a score is of no interest
_CELLS = 1 << 19  # rows found for all queries of a chunk: limits the memory as well
_TOLERANCE = 1e-5  # of the best score; float32 sums in another order differ by less
_SPARE = 16  # entities wanted in addition
_COMPARED = 48  # entities scored by all their rows in addition, where a row found stands for others
_SHARE = 8  # finding more than one in so many rows is slower than looking at each
_FEW_ROWS = 50_000  # up to this many selected rows, looking at each is faster than finding them
FAST_SCAN_KIND = "PQ4"
_OF_LISTS = 4  # rows of lists to find for each entity wanted: more cost less than a second search
_SELECTED = 4  # factor of rows looked at with a small selection, whose rows may be far from a query
# Up to so many multiplications, and queries, one thread is faster: others go on spinning for a while after their part.
_FEW_PRODUCTS, _FEW_QUERIES = 1 << 22, 64
# Queries searched together in lists. From 20 on FAISS compares them with the centres by BLAS, whose
# last bits depend on the size of the batch.
_LISTS_TOGETHER = 16


def imported_faiss() -> ModuleType:
    """The module faiss; PelError if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        remedy = 'run: pip install "spacy-pel[cpu]"  (or "spacy-pel[gpu]" with a GPU)'
        raise PelError("FAISS is not installed", remedy) from error
    return faiss


@contextmanager
def one_faiss_thread() -> Iterator[None]:
    """Within the block FAISS computes with one thread: in short steps threads wait for each other."""
    faiss = imported_faiss()
    n_threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(n_threads)


@cache
def gpu() -> Any:
    """What FAISS needs to search on a GPU; None without one."""
    faiss = imported_faiss()
    has_gpu = hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0
    return faiss.StandardGpuResources() if has_gpu else None


def all_products(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The inner products of all queries with all rows, float32; on a GPU if FAISS has one."""
    if gpu() is None:  # the BLAS in FAISS's packages takes five to seven times as long as numpy's
        is_few = queries.size * len(rows) <= _FEW_PRODUCTS
        return np.einsum("qd,rd->qr", queries, rows) if is_few else queries @ rows.T
    faiss = imported_faiss()
    return faiss.pairwise_distance_gpu(gpu(), queries, rows, metric=faiss.METRIC_INNER_PRODUCT)


class RowSelection(NamedTuple):
    """Some rows, to which a search is confined."""

    rows: np.ndarray  # their numbers, int64, ascending
    bits: np.ndarray  # whether each row of all is selected: uint8, the lowest bit first

    def reach(self, depth: int) -> int:
        """The number of rows to find so that, on average, ``depth`` of them are selected."""
        return -(-depth * 8 * len(self.bits) // len(self.rows))


class RowFinder:
    """Finds rows near a query by an index of FAISS, approximately.

    Up to two million rows have 4-bit codes in memory (``IndexPQFastScan``), which are all looked at: a
    third of the work of exact search. Of very similar rows of one entity, such as those of "lung cancers"
    and "cancers, lung", one may have a code for all (``IndexIDMap``): then the index finds the entity,
    and all of its rows are scored. More rows are in lists around centres, mapped from their file
    (``IndexIVFScalarQuantizer``).

    ``effort`` is the number of rows to find for each entity that is wanted, or of lists to look at.
    """

    def __init__(self, index: Any, effort: int) -> None:
        self.n_rows: int = index.ntotal
        self.finds_entities = isinstance(index, imported_faiss().IndexIDMap)
        self.n_lists: int = getattr(index, "nlist", 0)
        self.oversampling = _OF_LISTS if self.n_lists else effort
        self._index, self._probes = index, effort

    @classmethod
    def opened(cls, path: Path, found_by: dict[str, Any], matrix: VectorMatrix) -> RowFinder:
        """That of a file, as a KB's settings say; PelError unless it is an index of these rows."""
        faiss, scans = imported_faiss(), found_by["kind"] == FAST_SCAN_KIND
        try:
            flags = 0 if scans else faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY
            index = faiss.read_index(str(path), flags)
        except (RuntimeError, MemoryError) as error:
            raise damaged(path, "cannot be read") from error
        coded, n_rows = index, len(matrix)
        if scans and isinstance(index, faiss.IndexIDMap):
            coded, n_rows = faiss.downcast_index(index.index), index.id_map.size()
        fits = isinstance(coded, faiss.IndexPQFastScan if scans else faiss.IndexIVF)
        fits = fits and (index.ntotal, coded.ntotal, coded.d) == (n_rows, n_rows, matrix.dim)
        if not fits or scans and matrix.dim % max(coded.M, 1):
            raise damaged(path, f"is no index of {len(matrix)} vectors")
        if not scans:
            # The operating system reads ahead anyway, and FAISS's threads would not survive a fork.
            faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
        return cls(index, found_by["oversampling" if scans else "probes"])

    def nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> np.ndarray:
        """Approximately the best rows of each query, best first: int64 [n, depth]; -1 for no row.

        There may be fewer of a selection. ``effort``: how many times as many lists as usual are read.
        """
        if self.n_lists:
            faiss, chosen, probes = imported_faiss(), {}, effort * self._probes
            if selection is not None:  # the fewer rows are selected, the more are looked at
                share = len(selection.rows) / self.n_rows
                probes = int(probes * (1 + (_SELECTED - 1) * (1 - share)) / share) + 1
                chosen = {"sel": faiss.IDSelectorBitmap(selection.bits)}
            how = faiss.SearchParametersIVF(nprobe=min(probes, self.n_lists), **chosen)
            parts = np.split(queries, range(_LISTS_TOGETHER, len(queries), _LISTS_TOGETHER))
            found = [self._index.search(part, depth, params=how)[1] for part in parts]
            return np.concatenate(found)
        with one_faiss_thread() if len(queries) <= _FEW_QUERIES else nullcontext():
            _, rows = self._index.search(queries, selection.reach(depth) if selection else depth)
        if selection is None:
            return rows
        # FAISS's fast scan takes no selection
        bits = selection.bits.take(rows >> 3, mode="clip") >> (rows & 7).astype(np.uint8) & 1
        rows = np.where((bits == 1) & (rows >= 0), rows, -1)
        order = np.argsort(rows < 0, axis=1, kind="stable")[:, :depth]
        return np.take_along_axis(rows, order, axis=1)


class Candidates(NamedTuple):
    """The k best entities of n queries, [n, k], sorted by score, highest first, then by number."""

    numbers: np.ndarray  # of the entities, int64; -1 where there are fewer than k
    scores: np.ndarray  # inner products, float32; -inf where there are fewer than k


def no_candidates(n: int, k: int) -> Candidates:
    """K empty places for each of n queries."""
    return Candidates(np.full((n, k), -1), np.full((n, k), -np.inf, dtype=np.float32))


def best_candidates(
    n: int, lines: np.ndarray, numbers: np.ndarray, scores: np.ndarray, k: int
) -> Candidates:
    """The k best numbers of scored pairs of one of n queries and a number, by their best scores."""
    keys = lines * (numbers.max(initial=0) + 1) + numbers
    order = np.argsort(keys, kind="stable")  # which takes no time if they are ascending
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))  # of the pairs of each
    found = no_candidates(n, k)
    if not len(starts):
        return found
    best, first = np.maximum.reduceat(scores[order], starts), order[starts]
    lines, numbers = lines[first], numbers[first]
    counts = np.bincount(lines, minlength=n)
    places = np.arange(len(lines)) - (counts.cumsum() - counts)[lines]
    wide = no_candidates(n, counts.max())
    wide.numbers[lines, places], wide.scores[lines, places] = numbers, best
    ranks = np.argsort(-wide.scores, axis=1, kind="stable")[:, :k]
    for column, own in zip(found, wide):
        column[:, : ranks.shape[1]] = np.take_along_axis(own, ranks, axis=1)
    return found


class VectorIndex:
    """An index of rows. A row is a vector that stands for an entity; an entity may have several.

    If equal scores are not to be sorted by number, rows have ranks in that order.
    """

    def __init__(
        self,
        matrix: VectorMatrix,
        row_entities: np.ndarray,
        finder: RowFinder | None = None,
        projection: Projection | None = None,
        numbers: np.ndarray | None = None,
    ) -> None:
        """``row_entities`` are the entity, or its rank, of each row: integers [n_rows], ascending.
        ``finder`` finds rows near a query approximately; without it every row is looked at.
        ``projection`` made the rows shorter than queries. ``numbers`` are those of ranks, or None.
        """
        imported_faiss()
        self.matrix, self.row_entities = matrix, row_entities
        self.projection, self._finder = projection, finder
        # The last is the number of no rank, -1.
        self._numbers = None if numbers is None else np.append(numbers, -1).astype(np.int64)

    @classmethod
    def from_vectors(cls, vectors: np.ndarray, row_entities: np.ndarray) -> VectorIndex:
        """An exact index, in memory, of vectors [n_rows, dim]."""
        return cls(VectorMatrix(np.ascontiguousarray(vectors, dtype=np.float32)), row_entities)

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Candidates:
        """The k best entities of each query, scored by the best of their rows.

        A score is the inner product with the row as it is stored (lifted, if it was projected). To the
        last bit an answer does not depend on the other queries of the call. Without a finder it is
        exact. With one it still holds k entities, if there are k. Queries are float32 [n, dim].
        ``allowed`` says by number, as booleans, which entities may be found. PelError if k is below 1,
        or the queries have the wrong shape or hold NaN or infinity.
        """
        queries, selection = self._checked(vectors, k), self._selection(allowed)
        found, pending, effort = no_candidates(len(queries), k), np.arange(len(queries)), 1
        while len(pending) and (depth := self._depth(k, effort, selection)):
            step, missing = max(1, _CELLS // depth), []
            for chunk in np.split(pending, range(step, len(pending), step)):
                best, is_complete = self._found(queries[chunk], k, effort, selection)
                found.numbers[chunk], found.scores[chunk] = best
                missing.append(chunk[~is_complete])
            pending, effort = np.concatenate(missing), 2 * effort
        if len(pending):
            best = self._exact(queries[pending], k, selection, self.row_entities)
            found.numbers[pending], found.scores[pending] = best
        if self._numbers is None:
            return found
        return found._replace(numbers=self._numbers[found.numbers])

    def best_rows(
        self, vectors: np.ndarray, n: int, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The scores, float32, and the n best rows of each query, int64: [queries, n]; -inf and -1 for
        none. The best come first, then by row. Each row is looked at; see ``search`` for the rest.
        """
        queries, each = self._checked(vectors, n), np.arange(len(self.matrix))
        rows, scores = self._exact(queries, n, self._selection(allowed), each)
        return scores, rows

    def best_rows_of(
        self, vectors: np.ndarray, lines: np.ndarray, numbers: np.ndarray, first: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """The score and the best row of pairs of a query (its line, ascending) and an entity: [n].

        Of equal rows it is the first; -inf and -1 for an entity without rows.
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
        """The rows of entities, and for each the place of its entity in ``numbers``: int64."""
        if self._numbers is not None:
            places = np.searchsorted(self._numbers, numbers, sorter=self._order)
            ranks = self._order[np.minimum(places, len(self._order) - 1)]
            numbers = np.where(self._numbers[ranks] == numbers, ranks, -1)
        return self._rows_of(numbers)

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self._numbers, kind="stable")

    def _checked(self, vectors: np.ndarray, k: int) -> np.ndarray:
        """The queries in the form of the rows: float32 [n, width]."""
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
        mask = of_ranks[self.row_entities]
        return RowSelection(np.flatnonzero(mask), np.packbits(mask, bitorder="little"))

    def _rows_of(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = ranks.astype(self.row_entities.dtype)  # else numpy would convert all owners
        starts = np.searchsorted(self.row_entities, wanted)
        counts = np.searchsorted(self.row_entities, wanted, "right") - starts
        rows = np.repeat(starts - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        return rows, np.repeat(np.arange(len(ranks)), counts)

    def _exact(
        self, queries: np.ndarray, k: int, selection: RowSelection | None, owners: np.ndarray
    ) -> Candidates:
        """The k best owners of rows, by a look at every row."""
        found = no_candidates(len(queries), k)
        for some in (slice(i, i + _TOGETHER) for i in range(0, len(queries), _TOGETHER)):
            lines, rows = self._decisive(queries[some], k, selection, owners)
            scores = self.matrix.inner_products(queries[some], lines, rows)
            best = best_candidates(len(queries[some]), lines, owners[rows], scores, k)
            found.numbers[some], found.scores[some] = best
        return found

    def _decisive(
        self, queries: np.ndarray, k: int, selection: RowSelection | None, owners: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a query and a row, int64, that may decide its k best owners."""
        floor, slack = np.full((len(queries), 1), -np.inf, np.float32), np.float32(0)
        pairs = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
        for numbers, block in self.matrix.blocks(selection.rows if selection else None):
            products = all_products(queries, block)
            self.matrix.check_finite(products)
            # The best scores of groups of owners: the k-th owner's is no less than the k-th of them.
            starts = np.flatnonzero(np.diff(owners[numbers], prepend=-1))
            starts = starts[:: max(1, len(starts) // max(_GROUPS, 8 * k))]
            best = np.maximum.reduceat(products, starts, axis=1)
            if best.shape[1] >= k:
                floor = np.maximum(floor, np.partition(best, -k, axis=1)[:, -k, None])
            highest = best.max(axis=1, keepdims=True)
            slack = np.maximum(slack, 2 * _TOLERANCE * np.abs(highest))
            high = np.flatnonzero(products >= floor - slack)
            lines, places = np.divmod(high, len(numbers))
            pairs.append((lines, numbers[places], products[lines, places]))
        lines, rows, rough = map(np.concatenate, zip(*pairs))
        best = best_candidates(len(queries), lines, owners[rows], rough, k)
        kept = rough >= np.ravel(best.scores[:, -1:] - slack)[lines]
        return lines[kept], rows[kept]

    def _depth(self, k: int, effort: int, selection: RowSelection | None) -> int:
        """How many rows to ask the finder for; 0 if looking at every row is faster."""
        if self._finder is None or selection is not None and len(selection.rows) <= _FEW_ROWS:
            return 0
        depth = effort * self._finder.oversampling * (k + _SPARE)
        depth = selection.reach(depth) if selection else depth
        return depth if depth * _SHARE < self._finder.n_rows else 0

    def _found(
        self, queries: np.ndarray, k: int, effort: int, selection: RowSelection | None
    ) -> tuple[Candidates, np.ndarray]:
        """The best entities of rows that the finder finds; whether each query is answered: [n].

        A query is answered if it has k entities, and as many rows as a measurement showed to be enough.
        """
        finder, n = self._finder, len(queries)
        enough = finder.oversampling * (k + _SPARE)
        found = finder.nearest(queries, effort * enough, effort, selection)
        if found.max(initial=0) >= len(self.row_entities):
            raise damaged(self.matrix.path, f"has no row {found.max()}, which its index finds")
        lines, places = np.nonzero(found >= 0)
        rows = found[lines, places]
        scores, entities = self.matrix.inner_products(queries, lines, rows), self.row_entities[rows]
        # A row found may stand for other rows of its entity: then somewhat more than k are compared.
        more = k // 2 + _COMPARED if finder.finds_entities else 0
        best = best_candidates(n, lines, entities, scores, k + more)
        is_complete = (best.numbers[:, k - 1] >= 0) & (np.bincount(lines, minlength=n) >= enough)
        if finder.finds_entities:
            compared = np.sort(best.numbers, axis=1)  # rows in their order are found faster
            lines, places = np.nonzero(compared >= 0)
            entities = compared[lines, places]
            rows, places = self._rows_of(entities)
            lines, entities = lines[places], entities[places]
            scores = self.matrix.inner_products(queries, lines, rows)
            best = best_candidates(n, lines, entities, scores, k)
        return best, is_complete
