"""Locks of a KB folder: one writer at a time, and no file deleted while a reader has it open."""

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
except ImportError:  # Windows, which itself refuses to delete a file that is open
    fcntl = None

LOCK = ".lock"


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Keeps other writers out of a folder until the block ends.

    The operating system holds the lock, so the lock ends with the process, however that ends.

    Raises:
        PelError: Another process is writing to the folder. It is raised at once, and names the
            process.
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
        with suppress(OSError):  # only for the message; Windows lets nobody write to a locked file
            path.write_text(f"process {os.getpid()} on {socket.gethostname()} ({_now()})")
        yield
    finally:
        with suppress(OSError):  # while it is held, so that others who opened it see it is gone
            path.unlink()
        lock.release()


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


def _holder(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text() or "another process"
    return "another process"


def _now() -> str:
    return time.strftime("since %Y-%m-%d %H:%M:%S")
