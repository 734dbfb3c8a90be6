"""What a KB says of itself: one row of JSON in its database, which may come from a stranger."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import PelError

KB_FILE = "kb.sqlite"
JOURNAL = KB_FILE + "-journal"
KIND = "spacy-pel-kb"
SCHEMA_VERSION = 3
# Of KBs that earlier releases wrote.
OLD_MANIFEST = "manifest.json"
OLD_FILE = re.compile(
    r"(entities|mentions|removed|vectors|scales|rows|index|basis)-[0-9a-f]{16}\.(sqlite|faiss|npy)"
)
VECTOR_FILE = re.compile(r"(vectors-[0-9a-f]{16}\.npy|index-[0-9a-f]{16}\.faiss)")

_BLOCK = 1 << 20
_TEXT = (str, type(None))
_FILE = {"name": str, "sha256": str, "bytes": int}
_FORM = {
    "created_by": str,
    "sources": list,
    "counts": dict,
    "change": int,
    "next_number": int,
    "in_order": int,
    "checksum": str,
}
_VECTORS = {
    "file": dict, "dim": int, "stored_dim": int, "dtype": str, "index": str, "row_kind": str,
    "fingerprint": str, "stored_rows": int, "rows": int, "memory": int,
}  # fmt: skip
_FOUND_BY = {"kind": str, "file": dict}
_MENTIONS = {"weight": float, "level": float, "fingerprint": _TEXT, "counts": dict}

Settings = dict[str, Any]


def parsed_settings(path: Path, text: object) -> Settings:
    """The settings of a KB's database, checked, as nothing in a stranger's file is trusted.

    Args:
        path: The database.
        text: The row of JSON.

    Raises:
        PelError: They belong to another release, or say what no writer of KBs writes.
    """
    try:
        settings = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        settings = None
    build = f"build it again: python -m spacy pel kb build SOURCE {path.parent}"
    if not isinstance(settings, dict) or settings.get("kind") != KIND:
        raise PelError(f"{path}: is not the database of a knowledge base", build)
    version = settings.get("schema_version")
    if version != SCHEMA_VERSION:
        raise PelError(
            f"{path}: schema version {version}, this release reads {SCHEMA_VERSION}", build
        )
    if not _is_sound(settings):
        raise PelError(f"{path}: describes itself in no known way", f"do not use it; {build}")
    # A record takes more than a byte. Memory is reserved for this many entities.
    if settings["next_number"] > path.stat().st_size:
        raise PelError(f"{path}: counts more records than it can hold", f"do not use it; {build}")
    return settings


def is_old_form(folder: Path) -> bool:
    """Whether a folder holds a KB that an earlier release wrote."""
    try:
        manifest = json.loads((folder / OLD_MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def vector_files(settings: Settings) -> list[dict[str, Any]]:
    """What the settings say of each file of vectors: its name, size and SHA-256."""
    vectors = settings["vectors"]
    if not vectors:
        return []
    return [vectors["file"], *([vectors["found_by"]["file"]] if vectors["found_by"] else [])]


def plain_file_size(path: Path) -> int | None:
    """The size of a file of a KB, in bytes; None if it is missing.

    Raises:
        PelError: It is a symbolic link, which may lead anywhere, or a folder or a device.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a folder or a device"
        raise PelError(
            f"{path}: is {kind}, which a KB does not contain",
            "copy the KB with its files in place of links (cp -rL)",
        )
    return status.st_size


def sha256(path: Path, progress: Callable[[int], object] | None = None) -> str:
    """The SHA-256 of a file's content; ``progress`` gets the number of bytes of each block read."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            if progress:
                progress(len(block))
    return digest.hexdigest()


def _is_sound(settings: Settings) -> bool:
    vectors, mentions = settings.get("vectors"), settings.get("mentions")
    return (
        _has(settings, _FORM)
        and type(settings["counts"].get("entities")) is int
        and all(type(count) is int and count >= 0 for count in settings["counts"].values())
        and all(isinstance(source, str) for source in settings["sources"])
        and (vectors is None or _are_vectors(vectors))
        and (mentions is None or _has(mentions, _MENTIONS))
    )


def _are_vectors(vectors: Any) -> bool:
    if not _has(vectors, _VECTORS) or not _is_file(vectors["file"]):
        return False
    found_by = vectors.get("found_by")
    if found_by is None:
        return "found_by" in vectors
    numbers = any(
        _has(found_by, {key: int}) and found_by[key] for key in ("oversampling", "probes")
    )
    return _has(found_by, _FOUND_BY) and _is_file(found_by["file"]) and numbers


def _is_file(entry: Any) -> bool:
    return _has(entry, _FILE) and VECTOR_FILE.fullmatch(entry["name"]) is not None


def _has(entry: Any, types: dict[str, Any]) -> bool:
    """Whether an entry is a JSON object with values of these types; numbers must not be negative."""
    return isinstance(entry, dict) and all(
        isinstance(entry.get(key), type) and not (type is int and entry[key] < 0)
        for key, type in types.items()
    )
