"""Write files and folders atomically, whole or not at all, and lock a folder for its writer."""

import hashlib
import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from ..errors import PelError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # None stands for a module that Windows lacks

LOCK = ".lock"


@contextmanager
def whole_file(path: Path, mode: str = "x") -> Iterator[IO[Any]]:
    """Open a file to write ("x": UTF-8 text, "xb": bytes) that replaces the path at the end of the block.

    An error or an interruption leaves the path unchanged. A killed process leaves a hidden file beside it.
    This replaces a symbolic link, not its target; for a path that a user chose, pass ``pointed_to(path)``.

    Raises:
        PelError: The path is a folder or a device.
    """
    path = path.absolute()
    if path.exists() and not path.is_file() and not path.is_symlink():
        raise PelError(f"{path}: is a folder or a device", "give the path of a file")
    encoding, newline = (None, None) if "b" in mode else ("utf8", "\n")
    with _made_beside(path) as temporary:
        with temporary.open(mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power failure may leave an empty file
        temporary.replace(path)
        to_disk(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Make a folder to fill that replaces the path at the end of the block; see ``whole_file``.

    If the path is a symbolic link, this replaces its target. The old folder moves aside before the new one
    takes its place. If the process is killed between these steps, the old folder remains beside the path,
    with the suffix ".old".
    """
    path = pointed_to(path)
    with _made_beside(path) as temporary:
        temporary.mkdir()
        yield temporary
        for parent, _, names in os.walk(temporary, topdown=False):
            for new in (*(Path(parent, name) for name in names), Path(parent)):
                if not new.is_symlink():
                    to_disk(new)
        aside = temporary.with_suffix(".old")
        if os.path.lexists(path):
            path.rename(aside)
        temporary.rename(path)
        _remove(aside)
        to_disk(path.parent)


def pointed_to(path: Path) -> Path:
    """Follow the symbolic links of a path that a user chose."""
    return Path(os.path.realpath(path))  # unlike Path.resolve, it accepts a circle of links


@contextmanager
def _made_beside(path: Path) -> Iterator[Path]:
    """Yield a new path beside a path, for a file or folder that will replace it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a failed write names no file
        raise
    finally:
        _remove(temporary)


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder until the block ends.

    The operating system holds the lock, and releases it when the process ends.

    Raises:
        PelError: Another process is writing to the folder. The message names it.
    """
    path = folder / LOCK
    if path.is_symlink():
        raise PelError(f"{path}: is a symbolic link", "delete it, and run it again")
    lock = FileLock(path, timeout=0)  # opens no link (O_NOFOLLOW)
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
            holder = f"process {os.getpid()} on {socket.gethostname()} ({since})"
            with open(path, "r+", opener=opened_itself) as file:
                file.write(holder)
        yield
    finally:
        with suppress(OSError):  # before the release, so that those who wait for it see it is gone
            path.unlink()
        lock.release()


def opened_itself(path: str, flags: int) -> int:
    """Open a file without following a symbolic link; an ``opener`` for ``open``."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def to_disk(path: Path) -> None:
    """Wait until a file, or the list of a folder's files, is on the disk (POSIX only)."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sha256(path: Path, progress: Callable[[int], object] | None = None) -> str:
    """Return the SHA-256 of a file; ``progress`` is called with the bytes of each block read."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            if progress:
                progress(len(block))
    return digest.hexdigest()


def lock_for_reading(descriptor: int) -> None:
    """Protect an open file from ``remove_unless_locked``."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)


def remove_unless_locked(path: Path) -> None:
    """Delete a file unless a reader has locked it, or it cannot be deleted."""
    with suppress(OSError):
        if fcntl is None:  # Windows deletes no open file
            path.unlink()
            return
        # Opened to write, without which NFS gives no exclusive lock.
        with open(path, "r+b", opener=opened_itself) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _remove(path: Path) -> None:
    """Remove a folder or a file if it exists and can be removed."""
    with suppress(OSError):
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path)
