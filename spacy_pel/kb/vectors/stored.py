"""Read and search the vectors of a KB: a file of rows with its index, and rows added since.

Added rows are in the database, and searched exactly. Rows of removed entities remain unused.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import PelError, damaged
from ...io.whole_files import sha256
from ..store import Settings, Store, stored_text
from .index import FAST_SCAN_KIND, Candidates, RowFinder, VectorIndex, best_candidates, gpu
from .matrix import Projection, VectorMatrix

# The size of the largest file whose checksum is verified before use: 70 ms, or 0.3 s on a processor without
# SHA-256 instructions. Only form and ranges of larger files are checked.
CHECKED_BYTES = 1 << 27
_MAX_GPU_ROWS = 300_000  # up to here, a GPU searches all vectors faster than a CPU searches codes


class StoredVectors:
    """All vectors of a KB, opened on demand."""

    def __init__(self, folder: Path, settings: Settings, store: Store) -> None:
        self.settings: dict[str, Any] = settings["vectors"]
        self.path: Path = folder / self.settings["file"]["name"]
        self._in_order: int = settings["in_order"]
        self._count: int = settings["next_number"]
        self._store = store

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None) -> Candidates:
        """Return the k best entities of each query, by score, then by concept id; see ``VectorIndex``."""
        if self.added is None:
            return self.base.search(vectors, k, allowed)
        results = [part.search(vectors, k, allowed) for part in self.parts]
        numbers, scores = (np.concatenate(columns, axis=1) for columns in zip(*results))
        lines, places = np.nonzero(numbers >= 0)
        return self.best(len(vectors), lines, numbers[lines, places], scores[lines, places], k)

    def best(
        self, n: int, lines: np.ndarray, numbers: np.ndarray, scores: np.ndarray, k: int
    ) -> Candidates:
        """Return the k best entities of scored pairs of a query and an entity, by score, then by id.

        Numbers ascend with ids up to a limit. Ids are read only for ties with higher numbers.
        """
        width = max(k, np.bincount(lines, minlength=1).max())
        numbers, scores = best_candidates(n, lines, numbers, scores, width)
        same = (scores[:, 1:] == scores[:, :-1]) & (numbers[:, 1:] >= 0)
        later = same & (np.maximum(numbers[:, 1:], numbers[:, :-1]) >= self._in_order)
        for query in np.flatnonzero(later.any(axis=1)):
            runs = np.cumsum(np.append(True, ~same[query]))  # of equal scores
            places = np.flatnonzero(np.isin(runs, runs[1:][later[query]]))
            ids = self._store.records(numbers[query, places], "concept_id", stored_text)
            order = sorted(range(len(places)), key=lambda i: (runs[places[i]], ids[i]))
            numbers[query, places] = numbers[query, places[order]]
        return Candidates(numbers[:, :k], scores[:, :k])

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of ``KnowledgeBase.rows``. Lift projected rows to the original length."""
        of_parts = [(part, *part.rows_of(numbers)) for part in self.parts]
        vectors = np.concatenate([part.matrix.take(rows) for part, rows, _ in of_parts])
        places = np.concatenate([places for *_, places in of_parts])
        order = np.argsort(places, kind="stable")
        vectors = vectors[order]
        if self.base.projection is not None:
            vectors = vectors @ self.base.projection.axes.T
        return vectors, places[order]

    def name_scores(
        self, vectors: np.ndarray, lines: np.ndarray, numbers: np.ndarray, first: bool = False
    ) -> np.ndarray:
        """Return the scores of pairs of a query and an entity, float32; see ``VectorIndex.best_rows_of``.

        The first row of an entity is that of its canonical name.
        """
        scores = [part.best_rows_of(vectors, lines, numbers, first)[0] for part in self.parts]
        best: np.ndarray = np.maximum.reduce(scores)
        return best

    @cached_property
    def parts(self) -> list[VectorIndex]:
        """The rows in the file, and those added since, if any."""
        return [part for part in (self.base, self.added) if part is not None]

    @cached_property
    def base(self) -> VectorIndex:
        """The rows in the file, with their index; PelError if they are inconsistent."""
        path, settings, store = self.path, self.settings, self._store
        self._check(settings["file"])
        query = "SELECT owners, numbers, scales, axes FROM vectors WHERE name = ?"
        rows = store.read(query, settings["file"]["name"])
        if not rows:
            raise PelError(f"{path}: was replaced meanwhile", "open the KB again")
        with store.reading():
            owners = np.frombuffer(rows[0][0], "<i4")
            numbers, scales, axes = (
                None if blob is None else np.frombuffer(blob, kind)
                for blob, kind in zip(rows[0][1:], ("<i4", "<f4", "<f4"))
            )
            axes = None if axes is None else axes.reshape(settings["dim"], settings["stored_dim"])
            n_ranks = self._count if numbers is None else len(numbers)
            fits = (
                (axes is None) == (settings["dim"] == settings["stored_dim"])
                and (scales is None) == (settings["dtype"] != "int8")
                and (axes is None or np.isfinite(axes).all())
                and not (owners[1:] < owners[:-1]).any()
                and _are_within(owners, n_ranks)
                and (numbers is None or _are_within(numbers, self._count))
            )
            if not fits:
                raise ValueError("the owners, scales or axes of the vectors do not fit")
        matrix = VectorMatrix.opened(path, scales)
        if len(matrix) != len(owners) or matrix.dim != settings["stored_dim"]:
            raise damaged(path, f"does not hold {len(owners)} vectors")
        projection = None if axes is None else Projection(axes)
        return VectorIndex(matrix, owners, self._finder(matrix), projection, numbers)

    @cached_property
    def added(self) -> VectorIndex | None:
        """The rows added since; None without any."""
        query = (
            "SELECT row.number, vector FROM row LEFT JOIN entity USING (number) "
            "WHERE vectors = ? AND row.number < ? ORDER BY concept_id, row.number, id"
        )
        rows = self._store.read(query, self.settings["file"]["name"], self._count)
        if not rows:
            return None
        with self._store.reading():
            vectors = np.frombuffer(b"".join(vector for _, vector in rows), "<f4")
            vectors = vectors.reshape(len(rows), self.settings["stored_dim"])
            owners = np.array([number for number, _ in rows], dtype=np.int64)
            if owners.min() < 0 or not np.isfinite(vectors).all():
                raise ValueError("an added vector has no owner, or holds NaN or infinity")
        is_first = np.diff(owners, prepend=-1) != 0
        ranks, numbers = np.cumsum(is_first) - 1, owners[is_first]
        return VectorIndex(VectorMatrix(vectors), ranks, None, self.base.projection, numbers)

    def _finder(self, matrix: VectorMatrix) -> RowFinder | None:
        """Open the approximate index; None if search is exact."""
        found_by = self.settings["found_by"]
        scans = found_by and found_by["kind"] == FAST_SCAN_KIND
        if not found_by or scans and len(matrix) <= _MAX_GPU_ROWS and gpu() is not None:
            return None
        self._check(found_by["file"])
        return RowFinder.opened(self.path.with_name(found_by["file"]["name"]), found_by, matrix)

    def _check(self, file: dict[str, Any]) -> None:
        """Raise PelError if a file is damaged, unless it is large."""
        path = self.path.with_name(file["name"])
        try:
            changed = file["bytes"] <= CHECKED_BYTES and sha256(path) != file["sha256"]
        except OSError as error:
            raise damaged(path, f"cannot be read ({error.strerror})") from error
        if changed:
            raise damaged(path, "does not match its checksum")


def _are_within(numbers: np.ndarray, count: int) -> bool:
    return not len(numbers) or bool(0 <= numbers.min() <= numbers.max() < count)
