"""One segment of a KB: its records, its vectors, and which of its entities were removed since."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .records.store import EntityStore
from .vectors.index import VectorIndex, opened_index, opened_projection, opened_rows
from .vectors.matrix import VectorMatrix
from .vectors.projection import Projection


class Segment:
    """Entities that were written together, numbered from 0 in order of concept id.

    first: the number in the KB of its entity 0. count: how many it has, removed ones among them.
    entry: what the manifest says of it. store: the records of all its entities.
    """

    def __init__(self, folder: Path, entry: dict[str, Any], first: int, dim: int | None) -> None:
        """dim: of the vectors of the KB, or None if it has none."""
        self.folder = folder
        self.entry = entry
        self.first = first
        self.count: int = entry["count"]
        self.store = EntityStore(folder / entry["records"])
        self._dim = dim

    @cached_property
    def removed(self) -> np.ndarray:
        """The entities that are no longer in the KB: int64, ascending."""
        if self.entry["removed"] is None:
            return np.empty(0, dtype=np.int64)
        return np.load(self.folder / self.entry["removed"], allow_pickle=False)

    @cached_property
    def live(self) -> np.ndarray:
        """Booleans [count]: whether the entity is in the KB."""
        live = np.ones(self.count, dtype=bool)
        live[self.removed] = False
        live.flags.writeable = False  # lets an index remember what follows from it
        return live

    def is_live(self, number: int) -> bool:
        """Whether the entity is in the KB."""
        return bool(self.live[number])

    def without_removed(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Those of the entities that are in the KB: int64."""
        numbers = np.asarray(numbers, dtype=np.int64)
        return numbers[self.live[numbers]]

    def check(self, numbers: np.ndarray) -> None:
        """Raises IndexError, with the number in the KB, for one that no entity of the KB has."""
        known = (numbers >= 0) & (numbers < self.count)
        known[known] = self.live[numbers[known]]
        if not known.all():
            raise IndexError(f"no entity has the number {numbers[~known][0] + self.first}")

    @cached_property
    def index(self) -> VectorIndex | None:
        """The vectors, opened; None if the segment has none."""
        if self.entry["vectors"] is None:
            return None
        return opened_index(self.folder, self.entry["vectors"], self._dim)

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The stored rows of entities: see ``KnowledgeBase.rows``."""
        if self._stored_rows is None:
            return np.empty((0, self._dim or 0), dtype=np.float32), np.empty(0, dtype=np.int64)
        matrix, row_entities = self._stored_rows
        wanted = numbers.astype(row_entities.dtype)  # numpy would convert all rows instead
        starts = np.searchsorted(row_entities, wanted)  # rows ascend by entity
        counts = np.searchsorted(row_entities, wanted, "right") - starts
        rows = np.repeat(starts - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        vectors, projection = matrix.take(rows), self.projection
        whole = vectors if projection is None else projection.lifted(vectors)
        return whole, np.repeat(np.arange(len(numbers)), counts)

    @cached_property
    def projection(self) -> Projection | None:
        """What the vectors are in; None if there are none, or they are whole."""
        entry = self.entry["vectors"]
        return None if entry is None else opened_projection(self.folder, entry)

    @cached_property
    def _stored_rows(self) -> tuple[VectorMatrix, np.ndarray] | None:
        vectors = self.entry["vectors"]
        return None if vectors is None else opened_rows(self.folder, vectors)

    def close(self) -> None:
        self.store.close()


def segments_of(folder: Path, manifest: dict[str, Any]) -> tuple[Segment, ...]:
    """The segments of a KB folder, oldest first."""
    dim = manifest["vectors"]["dim"] if manifest["vectors"] else None
    counts = [entry["count"] for entry in manifest["segments"]]
    firsts = np.cumsum([0, *counts[:-1]]).tolist()
    return tuple(
        Segment(folder, entry, first, dim) for entry, first in zip(manifest["segments"], firsts)
    )
