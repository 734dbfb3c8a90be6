"""Change a KB folder in one transaction of its database.

New vector files are written next to the old ones. The transaction that names them puts them into use. Files
that the database does not name are deleted at the end, unless a reader has them open.
"""

import errno
import hashlib
import json
import re
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import PelError, readable
from ..io.whole_files import LOCK, remove_unless_locked, sha256, to_disk, writer_lock
from .store import (
    JOURNAL,
    KB_FILE,
    VECTOR_FILE,
    Settings,
    Store,
    connected,
    file_size,
    vector_files,
)

CHECKSUMS = "checksums.json"  # of a KB that has not changed since; a change deletes the file
CHUNKS_PREFIX = ".partial-"  # of folders with unfinished vectors
NAMES_PREFIX = ".names-"  # of the table of the KB's names, which each change makes obsolete
_TEMPORARY = ".tmp-"
_DISPOSABLE = re.compile(
    rf"{VECTOR_FILE.pattern}$|{re.escape(_TEMPORARY)}|{re.escape(NAMES_PREFIX)}"
)
_CACHE_SIZE = 1 << 18  # KiB; a change that fits makes readers wait only for its commit
_DISK_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM,
    errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EEXIST,
)  # fmt: skip
_SQLITE_DISK_ERRORS = ("full", "disk I/O", "unable to open", "readonly")


@dataclass
class Writing:
    """A KB folder that is locked for writing."""

    folder: Path
    settings: Settings
    database: sqlite3.Connection

    def note(self, *parts: object, **entries: object) -> None:
        """Update entries of the settings, and the checksum by ``parts``."""
        text = json.dumps([self.settings["checksum"], *parts], sort_keys=True)
        self.settings |= {**entries, "checksum": hashlib.sha256(text.encode()).hexdigest()}

    @contextmanager
    def transaction(self) -> Iterator[int]:
        """Commit what the block does to database and settings; it receives the number of the change."""
        (self.folder / CHECKSUMS).unlink(missing_ok=True)
        self.settings["change"] += 1
        self.database.execute("BEGIN IMMEDIATE")
        with self.database:  # rolls back after an error
            yield self.settings["change"]
            write_settings(self.database, self.settings)


def published(folder: Path, temporary: Path, stem: str) -> dict[str, Any]:
    """Rename a finished file of a KB folder by its content; return its name, size and SHA-256."""
    digest, size = sha256(temporary), temporary.stat().st_size
    target = folder / f"{stem}-{digest[:16]}{temporary.suffix}"
    if file_size(target) == size and sha256(target) == digest:
        temporary.unlink()  # a reader may have the existing file open
    else:
        _place(temporary, target)
    return {"name": target.name, "sha256": digest, "bytes": size}


def keep_names(change: Writing, checksum: str) -> None:
    """Keep the table of names of the KB's state with this checksum: no name has changed since."""
    before, now = (f"{NAMES_PREFIX}{c[:16]}" for c in (checksum, change.settings["checksum"]))
    for table in change.folder.glob(f"{before}*"):
        with suppress(OSError):
            table.replace(table.with_name(table.name.replace(before, now)))


def temporary_path(folder: Path, suffix: str) -> Path:
    """Return a new path in a KB folder. The end of the writing deletes the file."""
    return folder / f"{_TEMPORARY}{uuid.uuid4().hex}{suffix}"


def write_settings(database: sqlite3.Connection, settings: Settings) -> None:
    """Write the settings of a KB."""
    text = json.dumps(settings, indent=1, sort_keys=True)
    database.execute("INSERT OR REPLACE INTO setting VALUES ('kb', ?)", (text,))


@contextmanager
def writing(path: str | Path) -> Iterator[Writing]:
    """Open a KB folder to change it; PelError if there is no KB, or as of ``folder_lock``."""
    folder = Path(path).absolute()
    checked_settings(folder)  # before the lock, which would create the folder
    with folder_lock(folder):
        settings = checked_settings(folder)
        with closing(connected(folder / KB_FILE, to_write=True)) as database:
            (folder / JOURNAL).unlink(missing_ok=True)  # of a change that wrote nothing
            database.execute(f"PRAGMA cache_size = -{_CACHE_SIZE}")
            yield Writing(folder, settings, database)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a KB folder for writing, creating it if necessary; delete unused files at the end.

    Raises:
        PelError: The folder holds other files or cannot be written, or another process is writing to it.
    """
    with readable(folder):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        if folder.is_file():
            raise PelError(f"{folder}: is a file", "choose a folder")
        present = [] if folder in missing else list(folder.iterdir())
    names = [path.name for path in present]
    if KB_FILE not in names:
        for name in names:
            if name != LOCK and not name.startswith(CHUNKS_PREFIX) and not _DISPOSABLE.match(name):
                problem = f"{folder}: holds other files and no KB"
                raise PelError(problem, "choose an empty or new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with writer_lock(folder):
            try:
                yield
            finally:
                _sweep(folder)
    except (OSError, sqlite3.OperationalError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        of_sqlite = any(words in reason for words in _SQLITE_DISK_ERRORS)
        if not of_sqlite and getattr(error, "errno", None) not in _DISK_ERRORS:
            raise
        left = "the KB there is unchanged" if (folder / KB_FILE).exists() else "nothing is left"
        remedy = f"{left}; free some space, or choose another folder, and run it again"
        raise PelError(f"{folder}: cannot be written ({reason})", remedy) from error
    finally:
        with suppress(OSError):
            for path in missing:
                path.rmdir()


def put_in_place(database: Path, folder: Path) -> None:
    """Replace the database of a folder by a finished one, and write its checksums."""
    with suppress(PelError, sqlite3.Error, OSError):
        connected(folder / KB_FILE).close()  # SQLite would apply an old journal to the new file
    (folder / JOURNAL).unlink(missing_ok=True)
    (folder / CHECKSUMS).unlink(missing_ok=True)
    _place(database, folder / KB_FILE)
    write_checksums(folder)


def _place(temporary: Path, path: Path) -> None:
    """Move a finished file to its path, durably."""
    to_disk(temporary)
    temporary.replace(path)
    with suppress(OSError):  # not every file system can sync folders
        to_disk(path.parent)


def checked_settings(folder: Path) -> Settings:
    """Return the settings of the KB in a folder; errors as of ``Store.settings``."""
    with closing(Store(folder)) as store:
        return store.settings()


def write_checksums(folder: Path) -> None:
    """Write size and SHA-256 of the database for ``verify``. The next change deletes them."""
    path, temporary = folder / KB_FILE, temporary_path(folder, ".json")
    database = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    temporary.write_text(json.dumps({KB_FILE: database}, indent=1) + "\n")
    _place(temporary, folder / CHECKSUMS)


def _sweep(folder: Path) -> None:
    """Delete our files that the database does not name, except those that a reader has locked."""
    kept = set()
    if (folder / KB_FILE).exists():
        try:
            settings = checked_settings(folder)
        except PelError:
            return  # a damaged KB does not tell which files it needs
        kept = {file["name"] for file in vector_files(settings)}
        names = f"{NAMES_PREFIX}{settings['checksum'][:16]}"
        kept |= {path.name for path in folder.glob(f"{names}*")}
    for path in folder.iterdir():
        if _DISPOSABLE.match(path.name) and path.name not in kept:
            remove_unless_locked(path)
