"""The vectors of a KB as they are read: a file of rows with its index, and the rows added since.

Added rows stand in the database, and are searched exactly. Rows of removed entities stay there unused.
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

# The largest file that is compared with its checksum before it is read: it takes 70 ms, or 0.3 s on a
# processor that cannot compute SHA-256 itself. Of larger files only form and range are checked.
CHECKED_BYTES = 1 << 27
_GPU_ROWS = 300_000  # with up to this many rows, a GPU searches all vectors faster than a CPU codes


class StoredVectors:
    """All vectors of a KB. Nothing is opened before it is asked for."""

    def __init__(self, folder: Path, settings: Settings, store: Store) -> None:
        self.settings: dict[str, Any] = settings["vectors"]
        self.path: Path = folder / self.settings["file"]["name"]
        self._in_order: int = settings["in_order"]
        self._count: int = settings["next_number"]
        self._store = store

    def search(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None) -> Candidates:
        """The k best entities of each query, by score, then by concept id; see ``VectorIndex``."""
        if self.added is None:
            return self.filed.search(vectors, k, allowed)
        both = [part.search(vectors, k, allowed) for part in self.parts]
        numbers, scores = (np.concatenate(pair, axis=1) for pair in zip(*both))
        lines, places = np.nonzero(numbers >= 0)
        return self.best(len(vectors), lines, numbers[lines, places], scores[lines, places], k)

    def best(
        self, n: int, lines: np.ndarray, numbers: np.ndarray, scores: np.ndarray, k: int
    ) -> Candidates:
        """The k best of scored pairs of one of n queries and an entity, by score, then by id.

        Up to a number, numbers ascend with ids. So ids are read only of ties with later numbers.
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
        """See ``KnowledgeBase.rows``. Shortened rows get their original length again."""
        found = [(part, *part.rows_of(numbers)) for part in self.parts]
        vectors = np.concatenate([part.matrix.take(rows) for part, rows, _ in found])
        places = np.concatenate([places for *_, places in found])
        order = np.argsort(places, kind="stable")
        vectors = vectors[order]
        if self.filed.projection is not None:
            vectors = vectors @ self.filed.projection.axes.T
        return vectors, places[order]

    def name_scores(
        self, vectors: np.ndarray, lines: np.ndarray, numbers: np.ndarray, first: bool = False
    ) -> np.ndarray:
        """The scores of pairs of a query and an entity, float32; see ``VectorIndex.best_rows_of``.

        The first row of an entity is that of its canonical name.
        """
        each = [part.best_rows_of(vectors, lines, numbers, first)[0] for part in self.parts]
        return np.maximum.reduce(each)

    @cached_property
    def parts(self) -> list[VectorIndex]:
        """The rows in the file, and those that were added since, if there are any."""
        return [part for part in (self.filed, self.added) if part is not None]

    @cached_property
    def filed(self) -> VectorIndex:
        """The rows in the file, with their index; PelError if something does not fit."""
        path, settings, store = self.path, self.settings, self._store
        self._check(settings["file"])
        query = "SELECT owners, numbers, scales, axes FROM vectors WHERE name = ?"
        found = store.read(query, settings["file"]["name"])
        if not found:
            raise PelError(f"{path}: was replaced meanwhile", "open the KB again")
        with store.reading():
            owners, numbers, scales, axes = (
                None if blob is None else np.frombuffer(blob, kind)
                for blob, kind in zip(found[0], ("<i4", "<i4", "<f4", "<f4"))
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
            raise damaged(path, f"does not hold {len(owners)} vectors as said")
        projection = None if axes is None else Projection(axes)
        return VectorIndex(matrix, owners, self._finder(matrix), projection, numbers)

    @cached_property
    def added(self) -> VectorIndex | None:
        """The rows that were added since; None if there are none."""
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
        return VectorIndex(VectorMatrix(vectors), ranks, None, self.filed.projection, numbers)

    def _finder(self, matrix: VectorMatrix) -> RowFinder | None:
        """The approximate index; None if search looks at every row."""
        found_by = self.settings["found_by"]
        scans = found_by and found_by["kind"] == FAST_SCAN_KIND
        if not found_by or scans and len(matrix) <= _GPU_ROWS and gpu() is not None:
            return None
        self._check(found_by["file"])
        return RowFinder.opened(self.path.with_name(found_by["file"]["name"]), found_by, matrix)

    def _check(self, file: dict[str, Any]) -> None:
        """Raises PelError if a file was changed, unless it is large."""
        path = self.path.with_name(file["name"])
        try:
            changed = file["bytes"] <= CHECKED_BYTES and sha256(path) != file["sha256"]
        except OSError as error:
            raise damaged(path, f"cannot be read ({error.strerror})") from error
        if changed:
            raise damaged(path, "does not agree with its checksum")


def _are_within(numbers: np.ndarray, count: int) -> bool:
    return not len(numbers) or 0 <= numbers.min() <= numbers.max() < count
