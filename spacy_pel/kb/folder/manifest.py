"""The manifest of a KB folder, ``manifest.json``: what the folder holds, file by file."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from ...errors import PelError
from .manifest_form import form_fault

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
        size = plain_file_size(folder / name)
        if size is None:
            raise PelError(
                f"{folder / name}: missing", f"copy the whole folder, or build it again: {build}"
            )
        if size != entry["bytes"]:
            raise PelError(
                f"{folder / name}: {size} bytes where the manifest says {entry['bytes']}",
                f"copy the folder again, or build it again: {build}",
            )
    return manifest


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


def sound_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a KB folder, checked against its own checksum.

    Raises:
        PelError: There is no KB, its schema has another version, a byte of the manifest was
            changed, or it says what no writer of KBs writes (see ``form_fault``).
    """
    path, build = folder / MANIFEST, _build_command(folder)
    if plain_file_size(path) is None:
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
    fault = form_fault(manifest)
    if fault:
        raise PelError(f"{path}: {fault}", f"do not use this KB; build it again: {build}")
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
