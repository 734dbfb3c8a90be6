"""Mentions of one source that a KB has learnt: their texts, and a row of vectors for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..system.damaged_files import damaged
from .folder.file_checks import FileChecks
from .folder.manifest_form import mention_entries
from .records.mention_store import MentionStore
from .segment import Segment, SegmentEntry
from .vectors.index import VectorIndex


class MentionSegment:
    """The mentions of one source. Its entities are numbered from 0 in order of concept id.

    Attributes:
        entry: What the manifest says of the segment.
        source: The name of the source.
        n_rows: The number of mentions.
    """

    def __init__(
        self, folder: Path, entry: SegmentEntry, dim: int | None, checks: FileChecks
    ) -> None:
        """Opens nothing yet; see ``Segment``."""
        self.entry = entry
        self.source: str = entry["source"]
        self.n_rows: int = entry["rows"]
        self._vectors = Segment(folder, entry, 0, dim, checks)
        self._store = MentionStore(folder / entry["records"])
        self._checks = checks

    @property
    def store(self) -> MentionStore:
        """The texts of the mentions; PelError for a damaged file."""
        self._checks.check([self.entry["records"]])
        return self._store

    def ids(self) -> list[str]:
        """The concept ids of the entities, by number; PelError if they are not as many as said."""
        ids = self.store.ids()
        if len(ids) != self.entry["count"]:
            raise damaged(self._store.path, f"does not hold {self.entry['count']} entities")
        return ids

    @property
    def index(self) -> VectorIndex | None:
        """The index of the mentions; None if the KB has no vectors."""
        return self._vectors.index

    def close(self) -> None:
        """Closes the texts."""
        self._store.close()


def mention_segments_of(folder: Path, manifest: dict[str, Any]) -> tuple[MentionSegment, ...]:
    """The mentions of a KB folder, one segment a source, in the order they were learnt."""
    checks = FileChecks(folder, manifest["files"])
    dim = manifest["vectors"]["dim"] if manifest["vectors"] else None
    entries = mention_entries(manifest)
    return tuple(MentionSegment(folder, entry, dim, checks) for entry in entries)
