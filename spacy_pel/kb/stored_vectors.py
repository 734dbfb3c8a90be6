"""The vectors of a KB as they are read: a file of rows with its index, and the rows added since.

Rows that were added since the index was made stand in the database, and are searched exactly. Rows of
removed entities stay where they are, and are left out of answers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PelError
from ..system.damaged_files import damaged
from .settings import Settings, sha256
from .store import Store
from .vectors.candidate_lists import Candidates, no_candidates
from .vectors.faiss_library import has_gpu
from .vectors.fast_scan import FAST_SCAN_KIND, FastScan
from .vectors.index import VectorIndex
from .vectors.inverted_file import InvertedFile
from .vectors.matrix import VectorMatrix
from .vectors.projection import Projection
from .vectors.row_finder import RowFinder

# The largest file that is compared with its checksum before it is read: it takes 70 ms, or 0.3 s on a
# processor that cannot compute SHA-256 itself. Of larger files only form and range are checked.
CHECKED_BYTES = 1 << 27
_GPU_ROWS = 300_000  # with up to this many rows, a GPU searches all vectors faster than a CPU codes

# From numbers of entities to their concept ids and names.
Labels = Callable[[np.ndarray], list[tuple[str, str]]]


class RankedRows:
    """Rows whose entities have ranks in order of concept id, so that ties are in order of id.

    Attributes:
        matrix: The rows.
        owners: The rank of the entity of each row, ascending, integers [n_rows].
        index: Finds rows; its entities are ranks.
    """

    def __init__(
        self,
        matrix: VectorMatrix,
        owners: np.ndarray,
        numbers: np.ndarray | None,
        finder: RowFinder | None = None,
        projection: Projection | None = None,
    ) -> None:
        """Takes rows; ``numbers`` is the number of the entity of each rank, None if it is the rank."""
        self.matrix = matrix
        self.owners = owners
        self.index = VectorIndex(matrix, owners, finder, projection)
        self._numbers = numbers
        self._mask: tuple[np.ndarray, np.ndarray] | None = None

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None) -> Candidates:
        """As ``VectorIndex.search``, with the numbers that entities have in the KB."""
        found = self.index.search(vectors, k, allowed=self._of_ranks(allowed))
        if self._numbers is None:
            return found
        there = found.numbers >= 0
        numbers = np.where(there, self._numbers[np.where(there, found.numbers, 0)], -1)
        return Candidates(numbers.astype(np.int64), found.scores)

    def ranks(self, numbers: np.ndarray) -> np.ndarray:
        """The rank of each number: int64; -1 for those of no row."""
        if self._numbers is None:
            return numbers
        order = self._order
        places = np.searchsorted(self._numbers, numbers, sorter=order)
        ranks = order[np.minimum(places, len(order) - 1)]
        return np.where(self._numbers[ranks] == numbers, ranks, -1)

    def rows_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of entities, and for each the place of its entity in ``numbers``: int64."""
        wanted = self.ranks(numbers).astype(
            self.owners.dtype
        )  # else numpy would convert all owners
        starts = np.searchsorted(self.owners, wanted)
        counts = np.searchsorted(self.owners, wanted, "right") - starts
        rows = np.repeat(starts - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        return rows, np.repeat(np.arange(len(numbers)), counts)

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self._numbers, kind="stable")

    def _of_ranks(self, allowed: np.ndarray | None) -> np.ndarray | None:
        """The mask of ranks of a mask of numbers. That of the last read-only mask is kept."""
        if allowed is None or self._numbers is None:
            return allowed
        if self._mask is None or self._mask[0] is not allowed:
            mask = allowed[self._numbers]
            mask.flags.writeable = False  # an index remembers what it derives from a read-only mask
            self._mask = (allowed, mask)
        return self._mask[1]


class StoredVectors:
    """All vectors of a KB.

    Attributes:
        settings: What the KB's settings say of them.
    """

    def __init__(self, folder: Path, settings: Settings, store: Store, labels: Labels) -> None:
        """Opens nothing yet; ``labels`` tells the concept ids of entities."""
        self.settings: dict[str, Any] = settings["vectors"]
        self.path: Path = folder / self.settings["file"]["name"]
        self._in_order: int = settings["in_order"]
        self._count: int = settings["next_number"]
        self._store = store
        self._labels = labels

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None) -> Candidates:
        """The k best entities of each query, by score, then by concept id.

        Args:
            vectors: The queries, float32 [n, dim].
            k: The number of candidates of each query.
            allowed: Booleans, by number: which entities may be found. None allows all.

        Raises:
            PelError: As ``VectorIndex.search`` does.
        """
        found = self.filed.search(vectors, k, allowed)
        if self.added is None:
            return found
        both = zip(found, self.added.search(vectors, k, allowed))
        numbers, scores = (np.concatenate(pair, axis=1) for pair in both)
        order = np.argsort(-scores, axis=1, kind="stable")
        numbers = np.take_along_axis(numbers, order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
        self.sort_ties(numbers, scores)
        return Candidates(numbers[:, :k], scores[:, :k])

    def best_candidates(
        self, n: int, lines: np.ndarray, numbers: np.ndarray, scores: np.ndarray, k: int
    ) -> Candidates:
        """The k best of scored pairs of one of n queries and an entity, by score, then by id."""
        order = np.lexsort((numbers, -scores, lines))
        lines, numbers, scores = lines[order], numbers[order], scores[order]
        ranks = np.arange(len(lines)) - np.searchsorted(lines, lines)
        best = no_candidates(n, max(k, ranks.max(initial=-1) + 1))
        best.numbers[lines, ranks] = numbers
        best.scores[lines, ranks] = scores
        self.sort_ties(*best)
        return Candidates(best.numbers[:, :k], best.scores[:, :k])

    def sort_ties(self, numbers: np.ndarray, scores: np.ndarray) -> None:
        """Sorts the equal scores of each query by concept id, in place.

        Up to a number, numbers ascend with ids. So ids are read only of ties with later numbers.
        """
        same = (scores[:, 1:] == scores[:, :-1]) & (numbers[:, 1:] >= 0)
        later = np.maximum(numbers[:, 1:], numbers[:, :-1]) >= self._in_order
        for query in np.flatnonzero((same & later).any(axis=1)):
            run = np.concatenate(
                [[0], np.cumsum(~same[query])]
            )  # the run of equal scores of a place
            places = np.flatnonzero(np.isin(run, run[1:][(same & later)[query]]))
            ids = [id for id, _ in self._labels(numbers[query, places])]
            order = sorted(range(len(places)), key=lambda i: (run[places[i]], ids[i]))
            numbers[query, places] = numbers[query, places[order]]

    def rows(self, numbers: np.ndarray, lifted: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The rows of entities, in the order of ``numbers``; see ``KnowledgeBase.rows``.

        Args:
            numbers: The numbers of the entities, int64.
            lifted: Whether shortened rows get their original length again.
        """
        vectors, owners = [], []
        for part in self.parts:
            rows, places = part.rows_of(numbers)
            vectors.append(part.matrix.take(rows))
            owners.append(places)
        order = np.argsort(np.concatenate(owners), kind="stable")
        found = np.concatenate(vectors)[order]
        if lifted and self.projection is not None:
            found = self.projection.lifted(found)
        return found, np.concatenate(owners)[order]

    def name_scores(
        self, vectors: np.ndarray, lines: np.ndarray, numbers: np.ndarray
    ) -> np.ndarray:
        """The scores of pairs of a query and an entity, float32 [n]; -inf without rows.

        Args:
            vectors: The queries, float32 [queries, dim].
            lines: The query of each pair, int64 [n], ascending.
            numbers: The entity of each pair, int64 [n].
        """
        each = [
            part.index.best_rows_of(vectors, lines, part.ranks(numbers))[0] for part in self.parts
        ]
        return np.maximum.reduce(each)

    @property
    def parts(self) -> list[RankedRows]:
        """The rows in the file, and those that were added since, if there are any."""
        return [self.filed, *([self.added] if self.added is not None else [])]

    @cached_property
    def filed(self) -> RankedRows:
        """The rows in the file, with their index; PelError if something does not fit."""
        path, settings = self.path, self.settings
        self._check(settings["file"])
        name = settings["file"]["name"]
        found = self._store.read(
            "SELECT owners, numbers, scales, axes FROM vectors WHERE name = ?", name
        )
        if not found:
            raise PelError(f"{path}: was replaced meanwhile", "open the KB again")
        with self._store.reading():
            owners, numbers = (None if x is None else np.frombuffer(x, "<i4") for x in found[0][:2])
            scales, axes = (None if x is None else np.frombuffer(x, "<f4") for x in found[0][2:])
            if axes is not None:
                axes = axes.reshape(settings["dim"], settings["stored_dim"])
                if not np.isfinite(axes).all():
                    raise ValueError("the axes of the vectors hold NaN or infinity")
            if (scales is None) == (settings["dtype"] == "int8"):
                raise ValueError("the scales of the vectors are missing")
        matrix = VectorMatrix.opened(path, scales)
        if len(matrix) != len(owners) or matrix.dim != settings["stored_dim"]:
            raise damaged(path, f"does not hold {len(owners)} vectors as said")
        n_ranks = self._count if numbers is None else len(numbers)
        if len(owners) and not (0 <= owners[0] and owners[-1] < n_ranks and not _descend(owners)):
            raise damaged(self._store.path, "names no owner for each vector")
        if numbers is not None and len(numbers):
            if not 0 <= numbers.min() <= numbers.max() < self._count:
                raise damaged(self._store.path, "names owners of vectors that it lacks")
        if axes is None and settings["dim"] != settings["stored_dim"]:
            raise damaged(self._store.path, "lacks the axes of its vectors")
        projection = None if axes is None else Projection(axes)
        return RankedRows(matrix, owners, numbers, self._finder(matrix), projection)

    @cached_property
    def added(self) -> RankedRows | None:
        """The rows that were added since; None if there are none."""
        rows = self._store.read(
            "SELECT number, vector FROM row WHERE vectors = ? AND number < ? ORDER BY number, id",
            self.settings["file"]["name"],
            self._count,
        )
        if not rows:
            return None
        with self._store.reading():
            vectors = np.frombuffer(b"".join(vector for _, vector in rows), "<f4")
            vectors = vectors.reshape(len(rows), self.settings["stored_dim"])
            if not np.isfinite(vectors).all():
                raise ValueError("a vector holds NaN or infinity")
            owners = np.array([number for number, _ in rows], dtype=np.int64)
        distinct = np.unique(owners)
        ids = [id for id, _ in self._labels(distinct)]
        numbers = distinct[sorted(range(len(ids)), key=ids.__getitem__)]
        ranks = np.empty(len(numbers), dtype=np.int64)
        ranks[np.searchsorted(distinct, numbers)] = np.arange(len(numbers))
        ranks = ranks[np.searchsorted(distinct, owners)]
        order = np.argsort(ranks, kind="stable")
        matrix = VectorMatrix(np.ascontiguousarray(vectors[order]))
        return RankedRows(matrix, ranks[order], numbers, None, self.projection)

    @property
    def projection(self) -> Projection | None:
        """The projection that made the vectors shorter; None if they are whole."""
        return self.filed.index.projection

    def _finder(self, matrix: VectorMatrix) -> RowFinder | None:
        """The approximate index; None if search looks at every row."""
        found_by = self.settings["found_by"]
        if found_by is None:
            return None
        fast_scan = found_by["kind"] == FAST_SCAN_KIND
        if fast_scan and len(matrix) <= _GPU_ROWS and has_gpu():
            return None
        path = self.path.with_name(found_by["file"]["name"])
        self._check(found_by["file"])
        finder = (FastScan if fast_scan else InvertedFile).opened(path, found_by)
        if not finder.fits(matrix):
            raise damaged(path, f"is no index of {len(matrix)} vectors")
        return finder

    def _check(self, file: dict[str, Any]) -> None:
        """Raises PelError if a file was changed, unless it is large."""
        path = self.path.with_name(file["name"])
        try:
            changed = file["bytes"] <= CHECKED_BYTES and sha256(path) != file["sha256"]
        except OSError as error:
            raise damaged(path, f"cannot be read ({error.strerror})") from error
        if changed:
            raise damaged(path, "does not agree with its checksum")


def _descend(numbers: np.ndarray) -> bool:
    """Whether any of the numbers is smaller than the one before."""
    return bool((numbers[1:] < numbers[:-1]).any())
