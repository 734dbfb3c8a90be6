"""Transactions on a KB folder: a change is made as a whole or not at all.

The files of a KB have a hash of their content in their names and never change. A transaction writes
new files beside the old ones, and commits by replacing ``manifest.json``. Files that the manifest
does not name are then swept, unless a reader has them open. There is one writer at a time.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...errors import PelError
from .checksums import sha256
from .lock import LOCK, remove_unless_open, writer_lock
from .manifest import KIND, MANIFEST, SCHEMA_VERSION, manifest_text, parsed_manifest
from .manifest_form import CONTENT

_TEMPORARY = ".tmp-"
_DISK_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM
)  # fmt: skip
_SQLITE_DISK_ERRORS = ("full", "disk I/O", "unable to open", "readonly")


class Transaction:
    """New files in a KB folder. They become the KB's own at ``commit``.

    Attributes:
        folder: The KB folder.
        files: The new files by name, as the manifest has them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, dict[str, Any]] = {}

    def temporary(self, suffix: str) -> Path:
        """A new path in the folder. A file there is swept when the transaction ends."""
        return self.folder / f"{_TEMPORARY}{uuid.uuid4().hex}{suffix}"

    def publish(self, temporary: Path, stem: str) -> str:
        """Renames a finished file after its content, and returns the new name."""
        _sync(temporary)
        digest = sha256(temporary)
        name = f"{stem}-{digest[:16]}{temporary.suffix}"
        self.files[name] = {"sha256": digest, "bytes": temporary.stat().st_size}
        target = self.folder / name
        if target.is_file() and sha256(target) == digest:
            temporary.unlink()  # the other file stays, because a reader may have it open
        else:
            os.replace(temporary, target)
        return name

    def commit(self, manifest: dict[str, Any]) -> None:
        """Makes this the manifest of the folder, in one atomic step."""
        manifest = {**manifest, "kind": KIND, "schema_version": SCHEMA_VERSION}
        temporary = self.temporary(".json")
        temporary.write_bytes(manifest_text(manifest).encode())
        _sync(temporary)
        os.replace(temporary, self.folder / MANIFEST)
        if os.name == "posix":
            with suppress(OSError):  # it is committed; not every file system can sync folders
                _sync(self.folder)


@contextmanager
def folder_transaction(folder: Path) -> Iterator[Transaction]:
    """A transaction on a KB folder.

    A folder that does not exist is made, and removed again if nothing is committed. No other process
    can write meanwhile, so a manifest that is read inside the block is valid until the block ends.

    Raises:
        PelError: The folder holds something other than a KB, cannot be written to, or another
            process is writing to it.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    _refuse_foreign(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with writer_lock(folder):
            try:
                yield Transaction(folder)
            finally:
                _sweep(folder)
    except (OSError, sqlite3.OperationalError) as error:
        if not _is_disk_error(error):
            raise
        left = "the KB there is unchanged" if (folder / MANIFEST).exists() else "nothing is left"
        raise PelError(
            f"{folder}: cannot be written ({getattr(error, 'strerror', None) or error})",
            f"{left}; free some space, or choose another folder, and run it again",
        ) from error
    finally:
        with suppress(OSError):
            for path in made:
                path.rmdir()


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise PelError(f"{folder}: is a file", "choose a folder")
    if (folder / MANIFEST).exists():
        parsed_manifest(folder)
    elif folder.exists() and not all(is_ours(path.name) for path in folder.iterdir()):
        raise PelError(f"{folder}: holds other files and no KB", "choose an empty or new folder")


def is_ours(name: str) -> bool:
    """Whether a file has a name that writers of KBs give. Such a file may be swept."""
    return name == LOCK or name.startswith(_TEMPORARY) or CONTENT.fullmatch(name) is not None


def _sweep(folder: Path) -> None:
    """Removes our files that the manifest does not name.

    A file that a reader has open, or that cannot be removed, stays for the next transaction.
    """
    has_manifest = (folder / MANIFEST).exists()
    kept = {LOCK, *(parsed_manifest(folder).get("files") or () if has_manifest else ())}
    for path in folder.iterdir():
        if is_ours(path.name) and path.name not in kept:
            remove_unless_open(path)


def _is_disk_error(error: OSError | sqlite3.OperationalError) -> bool:
    if isinstance(error, OSError):
        return error.errno in _DISK_ERRORS
    return any(words in str(error) for words in _SQLITE_DISK_ERRORS)


def _sync(path: Path) -> None:
    # Windows syncs only files open for writing; POSIX opens folders only for reading.
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
