"""One writer at a time in a KB folder, and no file taken from under a reader."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ...errors import PelError

try:
    import fcntl
except ImportError:  # Windows, which refuses by itself to delete a file that is open
    fcntl = None

LOCK = ".lock"


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Keeps other writers out of a folder until the block ends.

    The operating system holds the lock, so that it goes with its process, however that ends.
    Raises PelError at once, naming the holder, if another writer is in the folder.
    """
    path = folder / LOCK
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise PelError(
            f"{folder}: {_holder(path)} is writing to it",
            "wait until that has ended, or stop it, and run it again",
        ) from error
    try:
        with suppress(OSError):  # for the message alone; Windows lets nobody write to a lock
            path.write_text(f"process {os.getpid()} on {socket.gethostname()} ({_now()})")
        yield
    finally:
        with suppress(OSError):  # while it is held: who has opened it sees that it is gone
            path.unlink()
        lock.release()


def remove_unless_open(path: Path) -> None:
    """Deletes a file, unless a reader holds a shared ``flock`` on it or it cannot be deleted."""
    with suppress(OSError):
        if fcntl is None:
            path.unlink()
            return
        descriptor = os.open(path, os.O_RDWR)  # NFS gives an exclusive lock only to writers
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)


def _holder(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text() or "another process"
    return "another process"


def _now() -> str:
    return time.strftime("since %Y-%m-%d %H:%M:%S")
