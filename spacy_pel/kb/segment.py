"""One segment of a KB: its records, its vectors, and which of its entities were removed since.

Segments are what a KB folder is made of. Building a KB writes one segment, and every change adds a
small one. No segment is ever changed: the manifest names the entities that were removed from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..system.damaged_files import damaged
from .folder.file_checks import FileChecks
from .folder.manifest_form import file_names
from .records.store import EntityStore
from .vectors.index import VectorIndex
from .vectors.matrix import VectorMatrix, mapped
from .vectors.projection import Projection
from .vectors.stored_index import opened_index, opened_projection, opened_rows

SegmentEntry = dict[str, Any]  # what the manifest says of a segment


class Segment:
    """Entities that were written together, numbered from 0 in order of concept id.

    Attributes:
        folder: The KB folder.
        entry: What the manifest says of the segment.
        first: The number that entity 0 of the segment has in the KB.
        count: The number of entities, including removed ones.
    """

    def __init__(
        self, folder: Path, entry: SegmentEntry, first: int, dim: int | None, checks: FileChecks
    ) -> None:
        """Opens nothing yet.

        Args:
            folder: The KB folder.
            entry: What the manifest says of the segment.
            first: The number that entity 0 of the segment has in the KB.
            dim: The length of the KB's vectors, or None if it has none.
            checks: The checks of the folder's files. Each file is checked before it is first read.
        """
        self.folder = folder
        self.entry = entry
        self.first = first
        self.count: int = entry["count"]
        self._store = EntityStore(folder / entry["records"])
        self._dim = dim
        self._checks = checks

    @property
    def store(self) -> EntityStore:
        """The records of all its entities, including removed ones; PelError for a damaged file."""
        self._checks.check([self.entry["records"]])
        return self._store

    @cached_property
    def removed(self) -> np.ndarray:
        """The entities that are no longer in the KB: int64, ascending; PelError for other content."""
        if self.entry["removed"] is None:
            return np.empty(0, dtype=np.int64)
        self._checks.check([self.entry["removed"]])
        path = self.folder / self.entry["removed"]
        removed = mapped(path)
        within = np.concatenate([[-1], removed, [self.count]]) if removed.ndim == 1 else [0, 0]
        if removed.dtype.kind != "i" or not (np.diff(within) > 0).all():
            raise damaged(path, f"does not hold ascending numbers below {self.count}")
        return np.array(removed, dtype=np.int64)

    @cached_property
    def live(self) -> np.ndarray:
        """Booleans [count], read-only: whether the entity is still in the KB."""
        live = np.ones(self.count, dtype=bool)
        live[self.removed] = False
        live.flags.writeable = False  # an index remembers what it derives from a read-only mask
        return live

    def is_live(self, number: int) -> bool:
        """Whether the entity is still in the KB; PelError for a number that no entity has had."""
        if not 0 <= number < self.count:
            raise damaged(self._store.path, f"names the record {number} of {self.count}")
        return bool(self.live[number])

    def without_removed(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Those of the numbers, which its files name, whose entities are still in the KB: int64.

        Raises:
            PelError: No entity has had one of the numbers.
        """
        numbers = np.asarray(numbers, dtype=np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.count:
            raise damaged(self._store.path, f"names records beyond its {self.count}")
        return numbers[self.live[numbers]]

    def check(self, numbers: np.ndarray) -> None:
        """Checks numbers of entities.

        Raises:
            IndexError: A number belongs to no entity of the KB. The message gives the number that
                it has in the KB.
        """
        known = (numbers >= 0) & (numbers < self.count)
        known[known] = self.live[numbers[known]]
        if not known.all():
            raise IndexError(f"no entity has the number {numbers[~known][0] + self.first}")

    @cached_property
    def index(self) -> VectorIndex | None:
        """The index of the vectors; None if the segment has no vectors."""
        if self.entry["vectors"] is None:
            return None
        self._check_vectors(with_index=True)
        index = opened_index(self.folder, self.entry["vectors"], self._dim)
        self._check_owners(index.row_entities)
        return index

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stored rows of entities, by their numbers in the segment.

        Returns:
            As ``KnowledgeBase.rows``: vectors, float32 [n, dim], and the place of each row's entity
            in ``numbers``, int64 [n].
        """
        if self._stored_rows is None:
            return np.empty((0, self._dim or 0), dtype=np.float32), np.empty(0, dtype=np.int64)
        matrix, row_entities = self._stored_rows
        wanted = numbers.astype(row_entities.dtype)  # else numpy would convert all row entities
        starts = np.searchsorted(row_entities, wanted)  # rows ascend by entity
        counts = np.searchsorted(row_entities, wanted, "right") - starts
        rows = np.repeat(starts - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        vectors = matrix.take(rows)
        if self.projection is not None:
            vectors = self.projection.lifted(vectors)
        return vectors, np.repeat(np.arange(len(numbers)), counts)

    @cached_property
    def projection(self) -> Projection | None:
        """The projection that made the vectors shorter; None if there are none or they are whole."""
        entry = self.entry["vectors"]
        self._check_vectors()
        return None if entry is None else opened_projection(self.folder, entry)

    @property
    def live_rows(self) -> int:
        """The number of rows whose entities are still in the KB."""
        vectors = self.entry["vectors"]
        if vectors is None or self.entry["removed"] is None:
            return vectors["rows"] if vectors else 0
        self._checks.check([vectors["rows_file"]])
        return int(self.live[mapped(self.folder / vectors["rows_file"])].sum())

    @cached_property
    def _stored_rows(self) -> tuple[VectorMatrix, np.ndarray] | None:
        vectors = self.entry["vectors"]
        if vectors is None:
            return None
        self._check_vectors()
        matrix, row_entities = opened_rows(self.folder, vectors)
        self._check_owners(row_entities)
        return matrix, row_entities

    def _check_vectors(self, with_index: bool = False) -> None:
        """Raises PelError if a file of the vectors was changed."""
        others = {self.entry["records"], self.entry["removed"]}
        if self.entry["vectors"] and self.entry["vectors"]["index"] and not with_index:
            others.add(self.entry["vectors"]["index"]["file"])
        self._checks.check(set(file_names(self.entry)) - others)

    def _check_owners(self, row_entities: np.ndarray) -> None:
        """Raises PelError if rows, which ascend by entity, belong to entities that are not there."""
        if len(row_entities) and row_entities[-1] >= self.count:
            path = self.folder / self.entry["vectors"]["rows_file"]
            raise damaged(path, f"names entities beyond the {self.count} of its segment")

    def close(self) -> None:
        """Closes the records."""
        self._store.close()


def segments_of(folder: Path, manifest: dict[str, Any]) -> tuple[Segment, ...]:
    """The segments of a KB folder, oldest first."""
    checks = FileChecks(folder, manifest["files"])
    dim = manifest["vectors"]["dim"] if manifest["vectors"] else None
    counts = [entry["count"] for entry in manifest["segments"]]
    firsts = np.cumsum([0, *counts[:-1]]).tolist()
    return tuple(
        Segment(folder, entry, first, dim, checks)
        for entry, first in zip(manifest["segments"], firsts)
    )
