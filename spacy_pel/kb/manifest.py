"""The manifest of a KB folder: what it holds, file by file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import PelError

MANIFEST = "manifest.json"
KIND = "spacy-pel-kb"
SCHEMA_VERSION = 1


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a KB folder, checked against the files it names.

    Raises PelError if there is no KB, if its schema is of another version, or if a file is missing
    or of the wrong size. Costs the same for a KB of any size.
    """
    build = f"python -m spacy pel kb build SOURCE {folder}"
    if not (folder / MANIFEST).is_file():
        raise PelError(f"{folder}: no knowledge base here; build one: {build}")
    manifest = parsed_manifest(folder)
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise PelError(
            f"{folder / MANIFEST}: schema version {manifest.get('schema_version')}, this release "
            f"reads {SCHEMA_VERSION}; build it again: {build}"
        )
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise PelError(f"{path}: missing; copy the whole folder, or build it again: {build}")
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise PelError(
                f"{path}: {size} bytes where the manifest says {entry['bytes']}; "
                f"copy the folder again, or build it again: {build}"
            )
    return manifest


def parsed_manifest(folder: Path) -> dict[str, Any]:
    """The manifest as it stands, of any schema version; PelError if it is not a KB's."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PelError(f"{path}: cannot be read; delete the folder and build it again") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise PelError(f"{path}: is not the manifest of a knowledge base; choose another folder")
    return manifest
