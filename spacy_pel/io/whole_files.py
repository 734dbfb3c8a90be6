"""Files and folders that appear as a whole or not at all, and the lock of who writes to a folder."""

import ctypes
import errno
import glob
import hashlib
import os
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from ..errors import PelError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = ".lock"
_NEW = ".tmp"  # the suffix of what is being written
_UNIQUE = "[0-9a-f]" * 32
# Of Linux: paths are those of this process (AT_FDCWD), and two names are exchanged.
_HERE, _EXCHANGE = -100, 2


@contextmanager
def whole_file(path: Path, mode: str = "x") -> Iterator[IO]:
    """A file to write to ("x": UTF-8 text, "xb": bytes), put in its place when the block ends well.

    After an error or an interruption, the path holds what it held before. What a killed process
    left beside it is removed by the next use of the path. A symbolic link is replaced, and what it
    points to is left alone: for a path that a user chose, give ``pointed_to(path)``. PelError if it
    is a folder or a device.
    """
    path = path.absolute()
    if path.exists() and not path.is_file() and not path.is_symlink():
        raise PelError(f"{path}: is a folder or a device", "give the path of a file")
    as_text = {} if "b" in mode else {"encoding": "utf8", "newline": "\n"}
    with _made_beside(path) as temporary, ExitStack() as held:
        with open(temporary, mode, **as_text) as file:
            # Until it is in place, or another writer may remove it.
            held.enter_context(_in_work(temporary))
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power failure may leave an empty file
        os.replace(temporary, path)
        to_disk(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill, which is put in its place when the block ends well; see ``whole_file``.

    Of a symbolic link, which a user chose, what it points to is replaced.

    On Linux the path always holds the old folder or the new one, also if the process is killed. Where
    a system cannot exchange two folders, there is none for a moment; if the process is killed then, the
    old one is beside it, with the suffix ".old".
    """
    path = pointed_to(path)
    with _made_beside(path) as temporary:
        temporary.mkdir()
        with _in_work(temporary):
            yield temporary
            for parent, _, names in os.walk(temporary, topdown=False):
                for new in (*(Path(parent, name) for name in names), Path(parent)):
                    if not new.is_symlink():
                        to_disk(new)
            if os.path.lexists(path) and not _exchanged(temporary, path):
                aside = temporary.with_suffix(".old")
                os.rename(path, aside)
                os.rename(temporary, path)
                _remove(aside)
            elif not os.path.lexists(path):
                os.rename(temporary, path)
            to_disk(path.parent)


def pointed_to(path: Path) -> Path:
    """Where a path leads by symbolic links: what a user chose who gave it."""
    return Path(os.path.realpath(path))  # of a circle of links: itself


@contextmanager
def _made_beside(path: Path) -> Iterator[Path]:
    """A new path beside a path, where something is made that is to replace what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    left_behind = path.parent.glob(f".{glob.escape(path.name)}.{_UNIQUE}{_NEW}")
    for left in sorted(left_behind):  # by processes that were killed
        with _in_work(left) as is_abandoned:
            if is_abandoned:
                _remove(left)
    temporary = _beside(path)
    try:
        yield temporary
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a failed write names no file
        raise
    finally:
        _remove(temporary)  # after an exchange it is what was at the path


@contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """Keeps other writers out of a folder until the block ends. PelError names one that is there.

    The operating system holds the lock, so the lock ends with the process, however that ends.
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
        with suppress(OSError):  # while it is held, so that others who opened it see it is gone
            path.unlink()
        lock.release()


def opened_itself(path: str, flags: int) -> int:
    """Open a file as ``open`` does, but never through a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where the system can say so."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sha256(path: Path, progress: Callable[[int], object] | None = None) -> str:
    """The SHA-256 of a file's content; ``progress`` gets the number of bytes of each block read."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            if progress:
                progress(len(block))
    return digest.hexdigest()


def lock_for_reading(descriptor: int) -> None:
    """Keeps ``remove_unless_locked`` from deleting an open file."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)


def remove_unless_locked(path: Path) -> None:
    """Deletes a file, unless a reader has locked it or deleting fails."""
    # NFS gives exclusive locks only to who may write. Windows deletes nothing that is open.
    with (
        suppress(OSError),
        open(path, "r+b", opener=opened_itself) if fcntl else nullcontext() as file,
    ):
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


@contextmanager
def _in_work(path: Path) -> Iterator[bool]:
    """Within the block other processes see that a file or folder is not abandoned.

    False if another process has its lock, or the system has no such locks.
    """
    descriptor = None
    is_held = False
    try:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_held = True
        yield is_held
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _exchanged(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot."""
    is_linux = sys.platform == "linux"
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if is_linux else None
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(second))


def _remove(path: Path) -> None:
    """Remove a folder or a file, if it is there and can be removed."""
    with suppress(OSError):
        path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}{_NEW}")
