"""Checks that a KB folder is as it was written: every byte, and what the files say together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PelError
from .folder.checksums import damage
from .folder.manifest import MANIFEST, sound_manifest
from .folder.manifest_form import all_file_names
from .folder.transaction import is_ours
from .folder.vector_chunks import CHUNKS_PREFIX
from .mention_segment import MentionSegment, mention_segments_of
from .segment import Segment, segments_of
from .vectors.matrix import mapped

_BLOCK = 4096  # ids looked up at a time

Report = Callable[[int], object]


def verify(path: str | Path, *, progress: Report | None = None) -> list[PelError]:
    """The problems of a KB folder, each with its remedy; an empty list if the KB is whole.

    Every file is read from beginning to end and compared with its checksum. If all agree, the
    manifest is compared with the content of the files.

    Args:
        path: The KB folder.
        progress: Called with the number of bytes read since the last call.

    Raises:
        PelError: There is no KB in the folder.
    """
    folder = Path(path).absolute()
    try:
        manifest = sound_manifest(folder)
    except PelError as error:
        if os.path.lexists(folder / MANIFEST):
            return [error]
        raise
    foreign = list(_foreign_files(folder, manifest))
    problems = _faults(folder, manifest, progress)
    return [*foreign, *problems]


def check_contents(path: str | Path) -> None:
    """Checks a KB as ``verify`` does. Files that do not belong to it are ignored.

    Raises:
        PelError: The first problem.
    """
    folder = Path(path).absolute()
    for problem in _faults(folder, sound_manifest(folder), None):
        raise problem


def _faults(folder: Path, manifest: dict[str, Any], progress: Report | None) -> list[PelError]:
    """What is wrong with the files of a manifest, or, if nothing is, with what they say together."""
    if problems := list(_damaged_files(folder, manifest, progress)):
        return problems
    segments = segments_of(folder, manifest)
    try:
        faults = list(_misfits(manifest, segments) or _wrong_counts(manifest, segments))
    except PelError as error:
        return [error]
    return [PelError(f"{folder / MANIFEST}: {fault}", "build the KB again") for fault in faults]


def _foreign_files(folder: Path, manifest: dict[str, Any]) -> Iterator[PelError]:
    """Files that no writer of KBs makes."""
    known = {MANIFEST, *manifest["files"]}
    for path in sorted(folder.iterdir()):
        ours = is_ours(path.name) or path.name.startswith(CHUNKS_PREFIX)
        if path.name not in known and not ours:
            yield PelError(f"{path}: does not belong to the KB", "move it elsewhere")


def _damaged_files(
    folder: Path, manifest: dict[str, Any], progress: Report | None
) -> Iterator[PelError]:
    """Files of the manifest that are missing or were changed."""
    for name, entry in manifest["files"].items():
        if fault := damage(folder / name, entry, progress):
            yield fault


def _misfits(manifest: dict[str, Any], segments: Sequence[Segment]) -> list[str]:
    """Files that do not belong to a segment, or do not hold what the segment's entry says."""
    if all_file_names(manifest) != set(manifest["files"]):
        return ["the files of its segments are not those it lists"]
    vectors = manifest["vectors"]
    mentions = mention_segments_of(segments[0].folder, manifest)
    return [
        *(fault for segment in segments for fault in _misfits_of(segment, vectors)),
        *(fault for segment in mentions for fault in _misfitting_mentions(segment, vectors)),
    ]


def _wrong_counts(manifest: dict[str, Any], segments: Sequence[Segment]) -> Iterator[str]:
    """Totals that are not the sums over the segments, and ids that two segments have."""
    entities = sum(int(segment.live.sum()) for segment in segments)
    if entities != manifest["counts"]["entities"]:
        yield f"counts {manifest['counts']['entities']} entities where there are {entities}"
    rows = sum(segment.live_rows for segment in segments)
    if manifest["vectors"] and rows != manifest["vectors"]["rows"]:
        yield f"counts {manifest['vectors']['rows']} vectors where there are {rows}"
    yield from _repeated_ids(segments)


def _misfits_of(segment: Segment, vectors: dict[str, Any] | None) -> Iterator[str]:
    records, count = segment.entry["records"], segment.count
    if not _has_number(segment, count - 1) or _has_number(segment, count):
        yield f"counts {count} records in {records}, which has another number of them"
    entry = segment.entry["vectors"]
    if entry and vectors:
        matrix, rows = (mapped(segment.folder / entry[name]) for name in ("file", "rows_file"))
        width = segment.projection.width if segment.projection else vectors["dim"]
        shape = (entry["rows"], width)
        if matrix.shape != shape or matrix.dtype != vectors["dtype"] or len(rows) != shape[0]:
            yield f"{entry['file']} and {entry['rows_file']} do not hold {shape[0]} vectors as said"
        elif len(rows) and not 0 <= rows.min() <= rows.max() < count:
            yield f"{entry['rows_file']} names entities that {records} does not have"
    elif entry or vectors:
        yield f"vectors are there for {records} or for the KB, not for both"


def _misfitting_mentions(segment: MentionSegment, vectors: dict[str, Any] | None) -> Iterator[str]:
    entry = segment.entry
    rows = sum(len(rows) for _, rows in segment.store.passages())  # reads each mention
    if rows != segment.n_rows or len(segment.store.ids()) != entry["count"]:
        yield f"counts {segment.n_rows} mentions in {entry['records']}, which has others"
    if bool(entry["vectors"]) != bool(vectors) or (
        segment.index is not None and len(segment.index.row_entities) != segment.n_rows
    ):
        yield f"vectors are not there for each mention of {entry['records']}"


def _has_number(segment: Segment, number: int) -> bool:
    try:
        return bool(segment.store.labels([number]))
    except IndexError:
        return False


def _repeated_ids(segments: Sequence[Segment]) -> Iterator[str]:
    """Concept ids that live records of two segments have. Within a segment none can repeat."""
    for place, segment in enumerate(segments):
        numbers = np.flatnonzero(segment.live) if place else ()
        for start in range(0, len(numbers), _BLOCK):
            for id, _ in segment.store.labels(numbers[start : start + _BLOCK]):
                found = ((other, other.store.number(id)) for other in segments[:place])
                if any(number is not None and other.is_live(number) for other, number in found):
                    yield f"two records have the id {id!r}"
