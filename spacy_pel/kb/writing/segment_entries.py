"""New entries of segments in a manifest, and the commit of a new list of segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..folder.checksums import check_files
from ..folder.manifest_form import all_file_names, file_names
from ..folder.transaction import Transaction
from ..records.entity import Entity
from ..segment import Segment, SegmentEntry, segments_of
from ..vectors.inverted_file import INDEX_MEMORY

Manifest = dict[str, Any]

_LISTS = ("aliases", "alt_ids", "parents", "retired_ids", "xrefs")


def count_entity(counts: Counter[str], entity: Entity) -> None:
    """Adds an entity to counts such as ``record_writing.write_records`` returns."""
    counts["entities"] += 1
    counts["definitions"] += entity.definition is not None
    for field in _LISTS:
        counts[field] += len(getattr(entity, field))


def check_copied(
    transaction: Transaction, manifest: Manifest, entries: Sequence[SegmentEntry]
) -> None:
    """Checks every byte of segments that are to be copied, except of their indexes.

    An index is not copied but built again. What the transaction itself wrote is not checked.

    Raises:
        PelError: A file was changed since it was written.
    """
    indexes = {entry["vectors"]["index"]["file"] for entry in entries if has_index(entry)}
    named = {name for entry in entries for name in file_names(entry)}
    old = sorted(named - indexes - set(transaction.files))
    check_files(transaction.folder, manifest["files"], old)


def has_index(entry: SegmentEntry) -> bool:
    """Whether a segment has an approximate index."""
    return bool(entry["vectors"] and entry["vectors"]["index"])


def without_entities(
    transaction: Transaction, manifest: Manifest, segment: Segment, numbers: Sequence[int]
) -> SegmentEntry | None:
    """The entry of a segment after removing these entities; None if no entities are left."""
    if segment.entry["removed"] is not None:
        check_files(segment.folder, manifest["files"], [segment.entry["removed"]])
    removed = np.union1d(segment.removed, numbers).astype(np.int64)
    if len(removed) == segment.count:
        return None
    path = transaction.temporary(".npy")
    np.save(path, removed)
    return {**segment.entry, "removed": transaction.publish(path, "removed")}


def commit_segments(
    transaction: Transaction,
    manifest: Manifest,
    entries: Sequence[SegmentEntry],
    more: Counter[str],
) -> None:
    """Commits a KB of these segments.

    Args:
        transaction: The transaction.
        manifest: The manifest until now.
        entries: The old and new segments.
        more: What is added to the manifest's counts.
    """
    known = {**manifest["files"], **transaction.files}
    new = {
        **manifest,
        "counts": {name: count + more[name] for name, count in manifest["counts"].items()},
        "segments": list(entries),
    }
    new["files"] = {name: known[name] for name in sorted(all_file_names(new))}
    if manifest["vectors"]:
        rows = sum(segment.live_rows for segment in segments_of(transaction.folder, new))
        new["vectors"] = {**manifest["vectors"], "rows": rows}
    transaction.commit(new)


def index_settings(entries: Iterable[SegmentEntry]) -> dict[str, Any]:
    """The arguments ``memory`` and ``alike`` of ``write_segment_vectors``, as in these segments.

    They are the defaults if no segment has an index.
    """
    indexes = [entry["vectors"]["index"] for entry in entries if has_index(entry)]
    if not indexes:
        return {"memory": INDEX_MEMORY, "alike": None}
    memory = max(index["memory"] for index in indexes)
    return {"memory": memory, "alike": indexes[0].get("alike")}
