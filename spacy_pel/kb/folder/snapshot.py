"""The files of a KB folder as a reader sees them: all of one manifest, there until it closes."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import PelError
from .manifest import read_manifest, sound_manifest

try:
    import fcntl
except ImportError:  # Windows, which refuses by itself to delete a file that is open
    fcntl = None


class HeldFiles:
    """The files that a manifest names, held open with a shared lock.

    A writer that sweeps the folder leaves them there (see ``lock.remove_unless_open``), so they can
    be opened by name at any time, also in a forked child, which shares the lock.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Raises PelError for a file that is gone."""
        descriptors: list[int] = []
        # Called with the object's end at the latest. Not LOCK_UN, which would take the lock from
        # forked children, too.
        self.close = weakref.finalize(self, _close, descriptors)
        try:
            for name in manifest["files"]:
                descriptors.append(_opened(folder / name))
                _lock(descriptors[-1], folder / name)
        except BaseException:
            self.close()
            raise


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise _gone(path) from error


def _lock(descriptor: int, path: Path) -> None:
    if fcntl is None:
        return
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    if not os.fstat(descriptor).st_nlink:  # swept before the lock was there
        raise _gone(path)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def held_files(folder: Path) -> tuple[dict[str, Any], HeldFiles]:
    """The present manifest of a KB folder and its files; PelError if the KB is not whole.

    A writer may sweep files between the reading of the manifest and the opening of what it names:
    then there is another manifest, which is read instead.
    """
    while True:
        before = sound_manifest(folder)
        try:
            manifest = read_manifest(folder)
            return manifest, HeldFiles(folder, manifest)
        except PelError:
            if sound_manifest(folder) == before:
                raise


def _gone(path: Path) -> PelError:
    return PelError(f"{path}: gone, as the KB was changed meanwhile", "open it again")
