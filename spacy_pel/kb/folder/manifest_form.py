"""The form of a manifest: what its entries are, and which names its files may have.

A KB may come from a stranger, so nothing in a manifest is trusted. A name that led out of the folder
would let whoever copies a KB overwrite any file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

CONTENT = re.compile(
    r"(entities|mentions|removed|vectors|scales|rows|index|basis)-[0-9a-f]{16}\.(sqlite|faiss|npy)"
)
_SHA256 = re.compile("[0-9a-f]{64}")
_TEXT = (str, type(None))
_FILE = {"sha256": str, "bytes": int}
_COUNTS = {"entities": int}
_SEGMENT = {"records": str, "count": int, "removed": _TEXT}
_SEGMENT_VECTORS = {
    "file": str, "scales_file": _TEXT, "rows_file": str, "rows": int
}  # fmt: skip
_INDEX = {"file": str, "kind": str}
_MENTIONS = {"fingerprint": _TEXT, "segments": list}
_MENTION_SEGMENT = {"source": str, "rows": int}
_VECTORS = {"dim": int, "dtype": str, "row_kind": str, "fingerprint": str}


def form_fault(manifest: dict[str, Any]) -> str | None:
    """What a manifest holds that no writer of KBs writes; None if there is nothing.

    Args:
        manifest: A manifest of the present schema version.
    """
    return next(_faults(manifest), None)


def file_names(segment: dict[str, Any]) -> list[str]:
    """The files of a segment's entry. Two segments share a file if their content is the same."""
    vectors = segment["vectors"] or {}
    index = vectors.get("index") or {}
    named = [segment["records"], segment["removed"], index.get("file")]
    kinds = ("file", "scales_file", "rows_file", "basis_file")
    named += [vectors.get(kind) for kind in kinds]
    return [name for name in named if name]


def mention_entries(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of the segments of learnt mentions; older manifests have no key for them."""
    return (manifest.get("mentions") or {}).get("segments", [])


def all_file_names(manifest: dict[str, Any]) -> set[str]:
    """The files of all segments of a manifest, of entities and of mentions."""
    entries = [*manifest["segments"], *mention_entries(manifest)]
    return {name for entry in entries for name in file_names(entry)}


def _faults(manifest: dict[str, Any]) -> Iterator[str]:
    files, segments = manifest.get("files"), manifest.get("segments")
    if not isinstance(files, dict) or not isinstance(segments, list):
        yield "lists no files or no segments"
        return
    for name, entry in files.items():
        if not CONTENT.fullmatch(name):
            yield f"names {name!r}, which is not a file of a KB"
        elif not _has(entry, _FILE) or not _SHA256.fullmatch(entry["sha256"]):
            yield f"does not say the size and checksum of {name}"
    if not _are_mentions(manifest.get("mentions")):
        yield "describes its mentions in no known way"
        return
    for segment in (*segments, *mention_entries(manifest)):
        if not _is_segment(segment):
            yield "describes a segment in no known way"
            return
        for name in file_names(segment):
            if name not in files:
                yield f"names {name!r} in a segment, but does not list it as a file"
                return
        # A record takes more than one byte. Memory is reserved for this many entities.
        if segment["count"] > files[segment["records"]]["bytes"]:
            yield f"counts {segment['count']} records in {segment['records']}, which is too small"
    if not _has(manifest.get("counts"), _COUNTS) or not _are_texts(manifest.get("sources")):
        yield "does not say its counts or sources"
    if manifest.get("vectors") is not None and not _has(manifest["vectors"], _VECTORS):
        yield "describes its vectors in no known way"


def _is_segment(segment: Any) -> bool:
    if not _has(segment, _SEGMENT) or "vectors" not in segment:
        return False
    vectors = segment["vectors"]
    if vectors is None:
        return True
    if not _has(vectors, _SEGMENT_VECTORS) or not isinstance(vectors.get("basis_file", ""), _TEXT):
        return False
    index = vectors.get("index")
    if index is None:
        return True
    return _has(index, _INDEX) and any(
        _has(index, {key: int}) for key in ("oversampling", "probes")
    )


def _are_mentions(mentions: Any) -> bool:
    if mentions is None:
        return True
    return (
        _has(mentions, _MENTIONS)
        and all(type(mentions.get(key)) is float for key in ("weight", "level"))
        and all(_has(segment, _MENTION_SEGMENT) for segment in mentions["segments"])
    )


def _has(entry: Any, types: dict[str, Any]) -> bool:
    """Whether an entry is a JSON object with values of these types; numbers must not be negative."""
    return isinstance(entry, dict) and all(
        isinstance(entry.get(key), type) and not (type is int and entry[key] < 0)
        for key, type in types.items()
    )


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
