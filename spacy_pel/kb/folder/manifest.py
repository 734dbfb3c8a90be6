"""The manifest of a KB folder, ``manifest.json``: what the folder holds, file by file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ...errors import PelError

MANIFEST = "manifest.json"
KIND = "spacy-pel-kb"
SCHEMA_VERSION = 2


def manifest_text(manifest: dict[str, Any]) -> str:
    """The content of ``manifest.json``: JSON with its own checksum. Equal manifests give equal text."""
    entries = {name: value for name, value in manifest.items() if name != "checksum"}
    checksum = hashlib.sha256(_json(entries).encode()).hexdigest()
    return _json({**entries, "checksum": checksum})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a KB folder, checked against the names and sizes of its files.

    It takes the same time for a KB of any size.

    Raises:
        PelError: There is no KB, its schema has another version, or a file is missing or has the
            wrong size.
    """
    manifest = sound_manifest(folder)
    build = _build_command(folder)
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise PelError(f"{path}: missing", f"copy the whole folder, or build it again: {build}")
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise PelError(
                f"{path}: {size} bytes where the manifest says {entry['bytes']}",
                f"copy the folder again, or build it again: {build}",
            )
    return manifest


def sound_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a KB folder, checked against its own checksum.

    Raises:
        PelError: There is no KB, its schema has another version, or a byte of the manifest was
            changed.
    """
    path, build = folder / MANIFEST, _build_command(folder)
    if not path.is_file():
        raise PelError(f"{folder}: no knowledge base here", f"build one: {build}")
    text = path.read_bytes()
    manifest = _parsed(path, text)
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise PelError(
            f"{path}: schema version {manifest.get('schema_version')}, this release "
            f"reads {SCHEMA_VERSION}",
            f"build it again: {build}",
        )
    if text != manifest_text(manifest).encode():
        raise PelError(
            f"{path}: does not agree with its checksum",
            f"copy the folder again, or build it again: {build}",
        )
    return manifest


def parsed_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of any schema version, unchecked; PelError if it is not the manifest of a KB."""
    path = folder / MANIFEST
    return _parsed(path, path.read_bytes())


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PelError(f"{path}: cannot be read", "delete the folder and build it again") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise PelError(f"{path}: is not the manifest of a knowledge base", "choose another folder")
    return manifest


def _json(entries: dict[str, Any]) -> str:
    return json.dumps(entries, indent=2, sort_keys=True) + "\n"


def _build_command(folder: Path) -> str:
    return f"python -m spacy pel kb build SOURCE {folder}"
