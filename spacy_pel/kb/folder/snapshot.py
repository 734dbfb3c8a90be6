"""The files of a KB folder as one reader sees them: all of one manifest, kept until it closes."""

from __future__ import annotations

import errno
import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import PelError
from .manifest import read_manifest, sound_manifest

try:
    import fcntl
except ImportError:  # Windows, which itself refuses to delete a file that is open
    fcntl = None

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # a link may have come after the folder was checked


class Snapshot:
    """The files that one manifest names, held open with a shared lock.

    A writer that sweeps the folder leaves locked files there (see ``lock.remove_unless_open``), so
    a reader can open them by name at any time. So can a forked child, which shares the lock.

    Attributes:
        manifest: The manifest of the folder.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Opens and locks the files of a manifest.

        Raises:
            PelError: A file is no longer there.
        """
        self.manifest = manifest
        descriptors: list[int] = []
        # Called at the latest when the object goes. It does not unlock (LOCK_UN), which would take
        # the lock from forked children as well.
        self.close = weakref.finalize(self, _close, descriptors)
        try:
            for name in manifest["files"]:
                descriptors.append(_opened(folder / name))
                _lock(descriptors[-1], folder / name)
        except BaseException:
            self.close()
            raise


def opened_snapshot(folder: Path) -> Snapshot:
    """The present files of a KB folder.

    A writer may sweep files after the manifest was read and before its files were opened. Then
    there is another manifest, and that one is read instead.

    Raises:
        PelError: There is no KB in the folder, or a file of it is missing or has the wrong size.
    """
    while True:
        before = sound_manifest(folder)
        try:
            return Snapshot(folder, read_manifest(folder))
        except PelError:
            if sound_manifest(folder) == before:
                raise


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | _NO_LINK)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        raise _swept(path) from error


def _lock(descriptor: int, path: Path) -> None:
    if fcntl is None:
        return
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    if not os.fstat(descriptor).st_nlink:  # swept before the lock was there
        raise _swept(path)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _swept(path: Path) -> PelError:
    return PelError(f"{path}: gone, because the KB was changed meanwhile", "open the KB again")
