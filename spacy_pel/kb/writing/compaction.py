"""Folds several segments of a KB into one, and copies their vectors."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..folder.manifest import read_manifest
from ..folder.transaction import Transaction, folder_transaction
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from ..records.record_writing import write_records
from ..records.semantic_types import SemanticType, known_types
from ..segment import Segment, SegmentEntry, segments_of
from ..vectors.stored_index import opened_rows
from .segment_entries import (
    Manifest,
    check_copied,
    commit_segments,
    count_entity,
    has_index,
    index_settings,
)
from .vector_writing import write_segment_vectors

_BLOCK = 4096  # rows copied at a time

Progress = Callable[[Iterable[Entity]], Iterable[Entity]]


def compact(path: str | Path, *, progress: Progress | None = None) -> KnowledgeBase:
    """Folds all segments of a KB into one, and opens the KB again.

    Removed entities leave the files. The others get new numbers, in order of concept id. Their
    vectors are copied, not computed again. Until the very end, and after any error or interruption,
    the KB stays as it was.

    Args:
        path: The KB folder.
        progress: Wraps the entities, as tqdm does.

    Raises:
        PelError: There is no KB, a file of it is damaged, another process is writing to it, or the
            disk is full.
    """
    folder = Path(path).absolute()
    read_manifest(folder)
    with folder_transaction(folder) as transaction:
        manifest = read_manifest(folder)
        segments = segments_of(folder, manifest)
        if len(segments) > 1 or len(segments[0].removed):
            entry, more = folded(transaction, manifest, segments, progress)
            commit_segments(transaction, manifest, [entry], more)
    return KnowledgeBase.open(folder)


def first_to_fold(lives: Sequence[int]) -> int:
    """The first segment to fold together with all later ones; len(lives) if none should be folded.

    It is the first segment, after the oldest, that is smaller than all later ones together. After
    folding, each of these segments is at least as large as all later ones together. So the number
    of segments, and how often an entity is copied, grow with the logarithm of their size.

    Args:
        lives: The number of live entities of each segment, oldest first. The oldest, which is
            large, is never folded.
    """
    for place in range(1, len(lives)):
        if lives[place] < sum(lives[place + 1 :]):
            return place
    return len(lives)


def folded(
    transaction: Transaction,
    manifest: Manifest,
    segments: Sequence[Segment],
    progress: Progress | None = None,
) -> tuple[SegmentEntry, Counter[str]]:
    """A new segment of the live entities of several segments, and the change of the KB's counts.

    (If entities of two segments claim an alternative id, only one of them has it in the new one.)

    Raises:
        PelError: A file of the segments was changed since it was written.
    """
    check_copied(transaction, manifest, [segment.entry for segment in segments])
    origins = array("i")  # for each entity of the new segment, the place of its old segment
    counted: Counter[str] = Counter()

    def entities() -> Iterator[Entity]:
        for entity, place in entities_by_id(segments):
            origins.append(place)
            count_entity(counted, entity)
            yield entity

    records, scratch = transaction.temporary(".sqlite"), transaction.temporary(".sqlite")
    types = known_types(t for segment in segments for t in segment.store.semantic_types())
    described = [type for type in types if type != SemanticType(type.name)]
    stream = progress(entities()) if progress else entities()
    more = Counter(write_records(records, scratch, stream, described))
    more.subtract(counted)
    for segment in segments:
        segment.close()
    entry = {
        "records": transaction.publish(records, "entities"),
        "count": len(origins),
        "removed": None,
        "vectors": None,
    }
    if manifest["vectors"]:
        moved = _moved_numbers(segments, np.frombuffer(origins, dtype=np.intc))
        entry["vectors"] = _copied_vectors(transaction, manifest["vectors"], segments, moved)
    return entry, more


def entities_by_id(segments: Sequence[Segment]) -> Iterator[tuple[Entity, int]]:
    """The live entities of all segments, sorted by concept id, with the place of their segment."""
    sides = [_live(place, segment) for place, segment in enumerate(segments)]
    return heapq.merge(*sides, key=lambda pair: pair[0].concept_id)


def _live(place: int, segment: Segment) -> Iterator[tuple[Entity, int]]:
    for number, entity in enumerate(segment.store):
        if segment.is_live(number):
            yield entity, place


def _moved_numbers(segments: Sequence[Segment], origins: np.ndarray) -> list[np.ndarray]:
    """For each segment the new numbers of its entities, int64 [count]; -1 for removed ones."""
    moved = []
    for place, segment in enumerate(segments):
        numbers = np.full(segment.count, -1, dtype=np.int64)
        numbers[segment.live] = np.flatnonzero(origins == place)
        moved.append(numbers)
    return moved


def _copied_vectors(
    transaction: Transaction,
    settings: dict[str, Any],
    segments: Sequence[Segment],
    moved: Sequence[np.ndarray],
) -> dict[str, Any]:
    """Publishes the vectors of the new segment, with the kind of index that the user chose."""
    indexed = any(has_index(segment.entry) for segment in segments)
    projection = segments[0].projection  # all segments have the same
    dim = projection.width if projection else settings["dim"]
    return write_segment_vectors(
        transaction,
        _copied_rows(segments, moved, dim),
        sum(int(segment.live.sum()) for segment in segments),
        dim,
        dtype=settings["dtype"],
        # The manifests of older KBs do not say what was chosen.
        index=settings.get("index", "approximate" if indexed else "auto"),
        **index_settings(segment.entry for segment in segments),
        projection_file=segments[0].entry["vectors"].get("basis_file"),
    )


def _copied_rows(
    segments: Sequence[Segment], moved: Sequence[np.ndarray], dim: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The live rows of all segments in batches, sorted by the new numbers of their entities.

    It takes about 20 bytes of memory for each row.
    """
    opened = [opened_rows(segment.folder, segment.entry["vectors"]) for segment in segments]
    owners = [numbers[entities] for (_, entities), numbers in zip(opened, moved)]
    firsts = np.cumsum([0, *map(len, owners)])
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    order = order[np.searchsorted(owner, 0, sorter=order) :]
    for start in range(0, len(order), _BLOCK):
        rows = order[start : start + _BLOCK]
        vectors = np.empty((len(rows), dim), dtype=np.float32)
        places = np.searchsorted(firsts, rows, side="right") - 1
        for place in np.unique(places):
            chosen = places == place
            vectors[chosen] = opened[place][0].take(rows[chosen] - firsts[place])
        yield vectors, owner[rows]
