"""Locks that say who is writing to a folder."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import PelError

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
        holder = "another process"
        with suppress(OSError, ValueError):
            holder = path.read_text() or holder
        raise PelError(
            f"{folder}: {holder} is writing to it",
            "wait until that has ended, or stop it, and run it again",
        ) from error
    try:
        with suppress(OSError):  # only for the message; Windows lets nobody write to a locked file
            since = time.strftime("since %Y-%m-%d %H:%M:%S")
            path.write_text(f"process {os.getpid()} on {socket.gethostname()} ({since})")
        yield
    finally:
        with suppress(OSError):  # while it is held, so that others who opened it see it is gone
            path.unlink()
        lock.release()
