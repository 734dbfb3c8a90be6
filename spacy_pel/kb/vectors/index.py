"""Search over vectors: finds rows, scores them exactly, and returns their entities."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from ...errors import PelError
from ...system.damaged_files import damaged
from ...system.threads import in_threads
from .candidate_lists import Candidates, compacted, first_occurrences, no_candidates
from .exact import nearest_of_all
from .faiss_library import imported_faiss
from .inner_products import inner_products
from .matrix import VectorMatrix
from .projection import Projection
from .row_finder import RowFinder, RowSelection

_CELLS = 1 << 19  # rows found for all queries of a chunk: limits the memory of a search
_TOLERANCE = 1e-5  # of the best score; float32 sums in another order differ by less
_OVERSAMPLING = 4  # rows found for each entity wanted, where every row is looked at
_SPARE = 16  # entities wanted in addition
_COMPARED = 48  # entities scored by all their rows in addition, where a row found stands for others
_SHARE = 8  # where exact search must find more than one in so many rows, it scores all of them
_FEW_ROWS = 50_000  # up to this many selected rows, looking at each is faster than finding them


class VectorIndex:
    """An index of rows. A row is a vector that stands for an entity; an entity may have several.

    Attributes:
        row_entities: The entity of each row, integers [n_rows].
        projection: The projection that made the rows shorter than queries; None if they are not.
    """

    def __init__(
        self,
        matrix: VectorMatrix,
        row_entities: np.ndarray,
        finder: RowFinder | None = None,
        projection: Projection | None = None,
    ) -> None:
        """Takes rows that are open.

        Args:
            matrix: The rows.
            row_entities: The entity of each row, integers [n_rows].
            finder: Finds rows near a query approximately. Without it every row is looked at.
            projection: The projection that made the rows shorter than queries, if they are.
        """
        if len(row_entities) != len(matrix):
            raise ValueError(f"{len(row_entities)} row entities, {len(matrix)} vectors")
        imported_faiss()
        self.row_entities = row_entities
        self._matrix = matrix
        self._finder = finder
        self.projection = projection
        self._remembered: tuple[np.ndarray, RowSelection] | None = None

    @classmethod
    def from_vectors(cls, vectors: np.ndarray, row_entities: np.ndarray) -> VectorIndex:
        """An exact index, in memory, of vectors [n_rows, dim]."""
        return cls(VectorMatrix(np.ascontiguousarray(vectors, dtype=np.float32)), row_entities)

    @property
    def dim(self) -> int:
        """The length of queries."""
        return self.projection.dim if self.projection else self._matrix.dim

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Candidates:
        """The k best entities of each query, scored by the best of their rows.

        A score is the inner product with the row as it is stored (lifted, if it was projected). The
        answer to a query does not depend, to the last bit, on the other queries of the call.
        Without a finder the answer is exact. With one it still holds k entities, if there are k.

        Args:
            vectors: The queries, float32 [n, dim].
            k: The number of entities for each query.
            allowed: Booleans [n_entities]: which entities may be found. What is derived from a
                read-only array is kept for the next search.

        Raises:
            PelError: k is below 1, or the queries have the wrong shape or hold NaN or infinity.
        """
        queries = self._checked(vectors, k)
        selection = None if allowed is None else self._selection(allowed)
        n_rows = self._n_rows(selection)
        numbers, scores = no_candidates(len(queries), k)
        pending, effort = np.arange(len(queries) if n_rows else 0), 1
        while len(pending):
            depth = min(effort * self._enough(k), n_rows)

            # An untrained encoder's scores are so near each other that no depth but the last is enough.
            of_all = effort > 1 and depth * _SHARE > n_rows and self._is_exact(depth, selection)
            depth = n_rows if of_all else depth

            def fill(chunk: np.ndarray) -> np.ndarray:
                if of_all:
                    numbers[chunk], scores[chunk] = self._best_of_all(queries[chunk], k, selection)
                    return chunk[:0]
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
        """What ``work`` returns for chunks of the queries that limit the memory of a search.

        Exact search is one product of matrices, which numpy spreads over the cores itself. All else
        is computed for each query alone: there each core gets the same number of chunks.
        """
        faiss = imported_faiss()
        exact = self._is_exact(depth, selection)
        n_threads = 1 if exact else faiss.omp_get_max_threads()
        rounds = -(-len(queries) * depth // (_CELLS * n_threads))
        chunks = np.array_split(queries, min(len(queries), max(1, rounds) * n_threads))
        return in_threads(work, chunks, n_threads, partial(faiss.omp_set_num_threads, 1))

    def nearest_rows(self, vectors: np.ndarray, n: int) -> np.ndarray:
        """The n best rows of each query, best first, or all rows if there are fewer.

        Several rows may belong to one entity. With a finder the order is that of its scores.

        Returns:
            int64 [queries, n]; -1 where the finder did not find that many.

        Raises:
            PelError: As ``search`` does.
        """
        queries = self._checked(vectors, n)
        return self._nearest(queries, min(n, len(self.row_entities)), 1, None)[1]

    def best_rows(
        self, vectors: np.ndarray, n: int, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best rows of each query with their exact scores, best first, then by number.

        Args:
            vectors: The queries, float32 [queries, dim].
            n: The number of rows of each query.
            allowed: As for ``search``.

        Returns:
            Scores, float32 [queries, n], and rows, int64 [queries, n]. Places without a row hold
            -inf and -1.

        Raises:
            PelError: As ``search`` does.
        """
        queries = self._checked(vectors, n)
        selection = None if allowed is None else self._selection(allowed)
        depth = min(2 * n, self._n_rows(selection))  # more, as their order may be approximate
        scores = np.full((len(queries), n), -np.inf, dtype=np.float32)
        rows = np.full((len(queries), n), -1, dtype=np.int64)
        if not depth or not len(queries):
            return scores, rows

        def fill(chunk: np.ndarray) -> None:
            found = self._nearest(queries[chunk], depth, 1, selection)[1]
            exact = self._exact_scores(queries[chunk], found)
            order = np.lexsort((found, -exact), axis=1)[:, :n]
            width = order.shape[1]
            scores[chunk, :width] = np.take_along_axis(exact, order, axis=1)
            rows[chunk, :width] = np.take_along_axis(found, order, axis=1)

        self._for_chunks(fill, np.arange(len(queries)), depth, selection)
        return scores, rows

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The stored vectors of these rows, float32 [n, width]."""
        return self._matrix.take(rows)

    def best_rows_of(
        self, vectors: np.ndarray, lines: np.ndarray, entities: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best row of pairs of a query and an entity; the first of equal ones.

        Args:
            vectors: The queries, float32 [queries, dim].
            lines: The query of each pair, int64 [n], ascending.
            entities: The entity of each pair, int64 [n].

        Returns:
            Scores, float32 [n], and rows, int64 [n]; -inf and -1 for an entity without rows.

        Raises:
            PelError: As ``search`` does.
        """
        queries = self._checked(vectors, 1)
        wanted = entities.astype(self.row_entities.dtype)  # else numpy would convert all of them
        starts = np.searchsorted(self.row_entities, wanted)
        counts = np.searchsorted(self.row_entities, wanted, "right") - starts
        best = np.full(len(entities), -np.inf, dtype=np.float32)
        best_rows = np.full(len(entities), -1, dtype=np.int64)
        if not counts.sum():
            return best, best_rows
        behind = counts.cumsum()
        rows = np.arange(behind[-1]) + np.repeat(starts - behind + counts, counts)
        scores = inner_products(self._matrix, queries, np.repeat(lines, counts), rows)
        order = np.lexsort((rows, -scores, np.repeat(np.arange(len(counts)), counts)))
        there = counts > 0
        first = order[(behind - counts)[there]]
        best[there], best_rows[there] = scores[first], rows[first]
        return best, best_rows

    def _checked(self, vectors: np.ndarray, k: int) -> np.ndarray:
        """The queries in the form of the rows: float32 [n, width]. PelError for unusable ones."""
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
        return self.projection.projected_queries(queries) if self.projection else queries

    def _selection(self, allowed: np.ndarray) -> RowSelection:
        """The rows of the allowed entities."""
        remembered = self._remembered
        if remembered is not None and remembered[0] is allowed:
            return remembered[1]
        mask = allowed[self.row_entities]
        rows = np.flatnonzero(mask)
        sizes = self._finder.list_sizes(rows) if self._finder else None
        selection = RowSelection(rows, np.packbits(mask, bitorder="little"), sizes)
        self._remembered = None if allowed.flags.writeable else (allowed, selection)
        return selection

    def _n_rows(self, selection: RowSelection | None) -> int:
        return len(self.row_entities if selection is None else selection.rows)

    def _enough(self, k: int) -> int:
        """The number of rows to find so that the k best entities are likely among their entities."""
        oversampling = self._finder.oversampling if self._finder else _OVERSAMPLING
        return oversampling * (k + _SPARE)

    def _is_exact(self, depth: int, selection: RowSelection | None) -> bool:
        """Whether every row, or every selected row, is looked at."""
        few = selection is not None and len(selection.rows) <= _FEW_ROWS
        return self._finder is None or few or not self._finder.suits(depth, selection)

    def _nearest(
        self, queries: np.ndarray, depth: int, effort: int, selection: RowSelection | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and numbers of rows [n, depth], best first by scores that may be approximate."""
        if self._is_exact(depth, selection):
            rows = None if selection is None else selection.rows
            return nearest_of_all(self._matrix, queries, depth, rows)
        scores, rows = self._finder.nearest(queries, depth, effort, selection)
        if rows.size and rows.max() >= len(self.row_entities):
            raise damaged(self._matrix.path, f"has no row {rows.max()}, which its index finds")
        return scores, rows

    def _finds_all(self, depth: int, effort: int, selection: RowSelection | None) -> bool:
        """Whether ``_nearest`` returns every row."""
        exact = self._is_exact(depth, selection) or self._finder.sees_all(effort, selection)
        return depth == self._n_rows(selection) and exact

    def _best_entities(
        self,
        queries: np.ndarray,
        k: int,
        depth: int,
        effort: int,
        selection: RowSelection | None,
    ) -> tuple[Candidates, np.ndarray]:
        """The best entities of the rows found, and whether each query is answered: booleans [n].

        A query is answered if k entities score more than any row that was not found can score. Such
        a row can score at most the lowest score found, plus the most that a found score was too
        low. If the finder's scores are too rough for that, a query is answered if it has k entities
        and as many rows as a measurement showed to be enough.
        """
        found_scores, found = self._nearest(queries, depth, effort, selection)
        exact = self._is_exact(depth, selection)
        if not exact and self._finder.finds_entities:
            return self._best_found(queries, found, k)
        if exact:
            found = self._decisive(found_scores, found, k)
        scores = self._exact_scores(queries, found)
        there = found >= 0
        errors = np.subtract(scores, found_scores, where=there, out=np.zeros_like(scores))
        tolerance = _TOLERANCE * np.abs(scores).max(axis=1, where=there, initial=0)
        # The most that a row not found can score; -inf if there were fewer rows than places.
        reach = found_scores[:, -1] + errors.max(axis=1) + tolerance
        entities = np.where(there, np.asarray(self.row_entities)[found], -1)
        order = np.lexsort((entities, -scores), axis=1)
        entities = np.take_along_axis(entities, order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
        first = first_occurrences(entities) & (entities >= 0)
        if exact or self._finder.bounds:
            complete = (first & (scores > reach[:, None])).sum(axis=1) >= k
        else:
            complete = (first.sum(axis=1) >= k) & (there.sum(axis=1) >= self._enough(k))
        complete |= self._finds_all(depth, effort, selection)
        return compacted(entities, scores, first, k), complete

    def _best_of_all(
        self, queries: np.ndarray, k: int, selection: RowSelection | None
    ) -> Candidates:
        """The best entities, by the exact scores of all rows, or of all selected ones."""
        rows = np.arange(len(self.row_entities)) if selection is None else selection.rows
        owners = np.asarray(self.row_entities)[rows]
        order = np.argsort(owners, kind="stable")
        rows, owners = rows[order], owners[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        lines = np.repeat(np.arange(len(queries)), len(rows))
        scores = inner_products(self._matrix, queries, lines, np.tile(rows, len(queries)))
        of_entities = np.maximum.reduceat(scores.reshape(len(queries), -1), starts, axis=1)
        entities = owners[starts]
        k_there = min(k, len(entities))
        last = np.partition(of_entities, -k_there, axis=1)[:, -k_there]
        lines, places = np.nonzero(of_entities >= last[:, None])
        order = np.lexsort((entities[places], -of_entities[lines, places], lines))
        lines, places = lines[order], places[order]
        ranks = np.arange(len(lines)) - np.searchsorted(lines, lines)
        lines, places, ranks = (x[ranks < k] for x in (lines, places, ranks))
        best = no_candidates(len(queries), k)
        best.numbers[lines, ranks] = entities[places]
        best.scores[lines, ranks] = of_entities[lines, places]
        return best

    def _best_found(
        self, queries: np.ndarray, found: np.ndarray, k: int
    ) -> tuple[Candidates, np.ndarray]:
        """``_best_entities`` for a finder whose rows stand for other rows of their entities.

        Takes the entities of the best rows found, somewhat more than k, and scores all their rows.
        """
        order = np.argsort(-self._exact_scores(queries, found), axis=1, kind="stable")
        found = np.take_along_axis(found, order, axis=1)
        there = found >= 0
        entities = np.where(there, np.asarray(self.row_entities)[found], -1)
        first = first_occurrences(entities) & there
        rank = first.cumsum(axis=1)
        n_compared = k + k // 2 + _COMPARED
        lines, places = np.nonzero(first & (rank <= n_compared))
        numbers = entities[lines, places]
        starts = self._first_rows[numbers]
        counts = self._first_rows[numbers + 1] - starts
        behind = counts.cumsum()
        rows = np.arange(counts.sum()) + np.repeat(starts - behind + counts, counts)
        scores = inner_products(self._matrix, queries, np.repeat(lines, counts), rows)
        compared = no_candidates(len(queries), n_compared)
        compared.numbers[lines, rank[lines, places] - 1] = numbers
        best = np.maximum.reduceat(scores, behind - counts)
        compared.scores[lines, rank[lines, places] - 1] = best
        order = np.lexsort((compared.numbers, -compared.scores), axis=1)[:, :k]
        complete = (rank[:, -1] >= k) & (there.sum(axis=1) >= self._enough(k))
        return Candidates(*(np.take_along_axis(x, order, axis=1) for x in compared)), complete

    @cached_property
    def _first_rows(self) -> np.ndarray:
        """The first row of each entity, int64 [n_entities + 1]; an entity's rows are neighbours."""
        n_entities = int(self.row_entities[-1]) + 1
        return np.searchsorted(self.row_entities, np.arange(n_entities + 1))

    def _decisive(self, scores: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
        """The rows found, with -1 for those that cannot be among the k best entities.

        That is so if they would be too far behind even with other last bits in their scores.
        """
        entities = np.where(rows >= 0, np.asarray(self.row_entities)[rows], -1)
        rank = first_occurrences(entities).cumsum(axis=1)
        last = np.where(rank[:, -1] >= k, (rank >= k).argmax(axis=1), rows.shape[1] - 1)
        floor = np.take_along_axis(scores, last[:, None], axis=1)
        slack = 2 * _TOLERANCE * np.abs(scores[:, :1])
        return np.where(scores >= floor - slack, rows, -1)

    def _exact_scores(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The inner products of each query with its rows [n, m]; -inf for row -1."""
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        places = np.nonzero(rows >= 0)
        scores[places] = inner_products(self._matrix, queries, places[0], rows[places])
        return scores
