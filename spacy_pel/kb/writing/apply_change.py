"""Applies a change to a KB: what it adds and what it removes, in one transaction."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import PelError
from ..folder.manifest import read_manifest
from ..folder.transaction import Transaction, folder_transaction
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from ..records.record_writing import write_records
from ..records.semantic_types import SemanticType
from ..records.store import EntityStore
from ..segment import SegmentEntry, segments_of
from ..vectors.projection import Projection
from .compaction import first_to_fold, folded
from .row_encoder import RowEncoder
from .segment_entries import (
    Manifest,
    commit_segments,
    count_entity,
    index_settings,
    without_entities,
)
from .vector_writing import write_segment_vectors

_ENCODED = 2048  # entities given to the encoder at a time


class ChangeCounts(NamedTuple):
    """The number of entities that were added, updated and removed."""

    added: int = 0
    updated: int = 0
    removed: int = 0


class RemovedRecords:
    """The records that leave a KB, for good or because newer records replace them.

    Attributes:
        numbers: Their numbers in the KB.
        counts: What they add to the manifest's counts.
    """

    def __init__(self) -> None:
        self.numbers = array("q")
        self.counts: Counter[str] = Counter()

    def add(self, number: int, entity: Entity) -> None:
        """Adds the record of an entity."""
        self.numbers.append(number)
        count_entity(self.counts, entity)


# Returns the entities that a change writes, and adds what leaves the KB to the second argument.
Plan = Callable[[KnowledgeBase, RemovedRecords], Iterable[Entity]]


def apply_change(
    path: str | Path,
    plan: Plan,
    encoder: RowEncoder | None,
    types: Iterable[SemanticType],
    sources: Sequence[str],
) -> ChangeCounts:
    """Applies a change to a KB. Nothing is written if it changes nothing.

    Args:
        path: The KB folder.
        plan: What the change writes and removes.
        encoder: Makes the vectors of entities; None for a KB without vectors.
        types: The semantic types of the entities that it writes.
        sources: What these entities come from. They are added to the manifest's sources.

    Raises:
        PelError: The plan refuses something, nothing would be left in the KB, another process is
            writing to it, or the disk is full.
    """
    folder = Path(path).absolute()
    read_manifest(folder)  # if there is no KB, no folder is made
    with folder_transaction(folder) as transaction, KnowledgeBase.open(folder) as kb:
        removed = RemovedRecords()
        new, counts = _new_segment(transaction, kb, plan(kb, removed), encoder, types)
        if new or removed.numbers:
            entries = _remaining(transaction, kb, removed) + ([new] if new else [])
            counts.subtract(removed.counts)
            named = dict.fromkeys([*kb.manifest["sources"], *sources])
            _commit(transaction, kb, {**kb.manifest, "sources": list(named)}, entries, counts)
    left = len(removed.numbers)
    if new is None:
        return ChangeCounts(removed=left)
    return ChangeCounts(added=new["count"] - left, updated=left)


def _new_segment(
    transaction: Transaction,
    kb: KnowledgeBase,
    entities: Iterable[Entity],
    encoder: RowEncoder | None,
    types: Iterable[SemanticType],
) -> tuple[SegmentEntry | None, Counter[str]]:
    """A new segment of these entities, or None if there are none, and its counts."""
    records, scratch = transaction.temporary(".sqlite"), transaction.temporary(".sqlite")
    counts = Counter(write_records(records, scratch, entities, types))
    if not counts["entities"]:
        return None, counts
    name = transaction.publish(records, "entities")
    entry = {"records": name, "count": counts["entities"], "removed": None, "vectors": None}
    if kb.has_vectors:
        oldest = kb.segments[0]
        with closing(EntityStore(kb.path / name)) as store:
            entry["vectors"] = write_segment_vectors(
                transaction,
                _encoded(store, encoder, oldest.projection),
                entry["count"],
                oldest.projection.width if oldest.projection else kb.dim,
                dtype=kb.manifest["vectors"]["dtype"],
                **index_settings(kb.manifest["segments"]),
                projection_file=oldest.entry["vectors"].get("basis_file"),
            )
    return entry, counts


def _encoded(
    store: EntityStore, encoder: RowEncoder, projection: Projection | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of all entities of a store, in batches of vectors and numbers."""
    entities = iter(store)
    first = 0
    while block := list(islice(entities, _ENCODED)):
        vectors, places = encoder.rows(block)
        yield vectors if projection is None else projection.projected_rows(vectors), places + first
        first += len(block)


def _remaining(
    transaction: Transaction, kb: KnowledgeBase, removed: RemovedRecords
) -> list[SegmentEntry]:
    """The segments of the KB without the removed records. Segments with nothing left go too."""
    numbers = np.unique(np.frombuffer(removed.numbers, dtype=np.int64))
    entries: list[SegmentEntry | None] = []
    for segment in kb.segments:
        start, end = np.searchsorted(numbers, [segment.first, segment.first + segment.count])
        local = numbers[start:end] - segment.first
        entries.append(
            without_entities(transaction, kb.manifest, segment, local)
            if len(local)
            else segment.entry
        )
    return [entry for entry in entries if entry]


def _commit(
    transaction: Transaction,
    kb: KnowledgeBase,
    manifest: Manifest,
    entries: list[SegmentEntry],
    counts: Counter[str],
) -> None:
    """Commits a manifest with these segments. Small ones at the end may be folded into one."""
    if not entries:
        raise PelError(f"{kb.path}: nothing would be left in it", "delete the folder instead")
    segments = segments_of(kb.path, {**manifest, "segments": entries})
    place = first_to_fold([int(segment.live.sum()) for segment in segments])
    if place < len(segments):
        entry, more = folded(transaction, manifest, segments[place:])
        entries = [*entries[:place], entry]
        counts.update(more)
    commit_segments(transaction, manifest, entries, counts)
