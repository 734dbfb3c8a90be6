"""No file of a KB is deleted while a reader has it open."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which itself refuses to delete a file that is open
    fcntl = None


def lock_for_reading(descriptor: int) -> None:
    """Keeps ``remove_unless_open`` from deleting the file, as long as it is open."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)


def remove_unless_open(path: Path) -> None:
    """Deletes a file, unless a reader holds a shared ``flock`` on it or deleting fails."""
    with suppress(OSError):
        if fcntl is None:
            path.unlink()
            return
        descriptor = os.open(path, os.O_RDWR)  # NFS gives exclusive locks only to writers
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)
