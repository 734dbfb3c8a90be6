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
OLD_MANIFEST = "manifest.json"  # of KBs that earlier releases wrote
VECTOR_FILE = re.compile(r"(vectors-[0-9a-f]{16}\.npy|index-[0-9a-f]{16}\.faiss)")

_FILE = {"name": VECTOR_FILE, "sha256": str, "bytes": int}
_SOME = range(1, 1 << 31)
_VECTORS = {
    "file": _FILE, "dim": int, "stored_dim": int, "dtype": str, "index": str, "row_kind": str,
    "fingerprint": str, "stored_rows": int, "rows": int, "memory": int,
    "found_by": (
        None,
        {"kind": str, "file": _FILE, "oversampling": _SOME},
        {"kind": str, "file": _FILE, "probes": _SOME},
    ),
}  # fmt: skip
_MENTIONS = {"weight": float, "level": float, "fingerprint": (None, str), "counts": dict}
_FORM = {
    "created_by": str, "sources": [str], "counts": {"entities": int}, "change": int,
    "next_number": int, "in_order": int, "checksum": str, "vectors": (None, _VECTORS),
    "mentions": (None, _MENTIONS),
}  # fmt: skip

Settings = dict[str, Any]


def parsed_settings(path: Path, text: object) -> Settings:
    """The settings in a row of JSON of a KB's database; PelError if no writer of this release wrote it."""
    try:
        settings = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        settings = None
    build = f"build it again: python -m spacy pel kb build SOURCE {path.parent}"
    if not isinstance(settings, dict) or settings.get("kind") != KIND:
        raise PelError(f"{path}: is not the database of a knowledge base", build)
    version = settings.get("schema_version")
    if version != SCHEMA_VERSION:
        problem = f"{path}: schema version {version}, this release reads {SCHEMA_VERSION}"
        raise PelError(problem, build)
    if not (_fits(settings, _FORM) and _fits([*settings["counts"].values()], [int])):
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
    vectors = settings["vectors"] or {}
    return [part["file"] for part in (vectors, vectors.get("found_by")) if part]


def plain_file_size(path: Path) -> int | None:
    """The size of a file of a KB, in bytes; None if it is missing; PelError if it is no plain file."""
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


def wrong_size(path: Path, size: int) -> str | None:
    """What is wrong with the size of a file of a KB; None if nothing is."""
    found = plain_file_size(path)
    if found == size:
        return None
    return "missing" if found is None else f"{found} bytes, not {size}"


def sha256(path: Path, progress: Callable[[int], object] | None = None) -> str:
    """The SHA-256 of a file's content; ``progress`` gets the number of bytes of each block read."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            if progress:
                progress(len(block))
    return digest.hexdigest()


def _fits(value: Any, form: Any) -> bool:
    """Whether a value of JSON has a form: of a type, or one of several, or an object or a list of them."""
    match form:
        case tuple():
            return any(_fits(value, each) for each in form)
        case dict():
            entries = value if isinstance(value, dict) else {}
            return all(key in entries and _fits(entries[key], each) for key, each in form.items())
        case list():
            return isinstance(value, list) and all(_fits(each, form[0]) for each in value)
        case re.Pattern():
            return isinstance(value, str) and form.fullmatch(value) is not None
        case range():
            return type(value) is int and value in form
        case None:
            return value is None
    return isinstance(value, form) and not (form is int and value < 0)
