"""Changes of a KB folder: each is one transaction of its database, and made as a whole or not at all.

New files of vectors are written beside the old ones. The transaction that names them puts them in
place. Then files that the database does not name are swept, unless a reader has them open.
"""

import errno
import hashlib
import json
import os
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
from .row_sum import summed
from .store import (
    JOURNAL,
    KB_FILE,
    VECTOR_FILE,
    Settings,
    Store,
    check_plain,
    connected,
    plain_file_size,
    vector_files,
)

CHECKSUMS = "checksums.json"  # of a KB that has not been changed since they were written
CHUNKS_PREFIX = ".partial-"  # folders of vectors that are being made
NAMES_PREFIX = ".names-"  # a table of the KB's names, which is made anew after each change
_TEMPORARY = ".tmp-"
_SWEPT = re.compile(rf"{VECTOR_FILE.pattern}$|{re.escape(_TEMPORARY)}|{re.escape(NAMES_PREFIX)}")
_CACHE = 1 << 18  # KiB; a change that fits does not keep readers waiting before its end
_DISK_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM,
    errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EEXIST,
)  # fmt: skip
_SQLITE_DISK_ERRORS = ("full", "disk I/O", "unable to open", "readonly")


@dataclass
class Writing:
    """A KB folder that no other process can write to meanwhile."""

    folder: Path
    settings: Settings
    database: sqlite3.Connection

    def note(self, *parts: object, **entries: object) -> None:
        """Changes entries of the settings. The parts decide the checksum beside what it was."""
        text = json.dumps([self.settings["checksum"], *parts], sort_keys=True)
        self.settings |= {**entries, "checksum": hashlib.sha256(text.encode()).hexdigest()}

    @contextmanager
    def transaction(self) -> Iterator[int]:
        """Commits what the block, which gets the number of the change, does to database and settings."""
        (self.folder / CHECKSUMS).unlink(missing_ok=True)  # it is no longer as it was written
        self.settings["change"] += 1
        self.database.execute("BEGIN IMMEDIATE")
        with self.database:  # commits, or rolls back after an error
            with summed(self.database):
                yield self.settings["change"]
                write_settings(self.database, self.settings)


def published(folder: Path, temporary: Path, stem: str) -> dict[str, Any]:
    """Renames a finished file of a KB folder after its content; returns its name, size and SHA-256."""
    digest, size = sha256(temporary), temporary.stat().st_size
    target = folder / f"{stem}-{digest[:16]}{temporary.suffix}"
    if plain_file_size(target) == size and sha256(target) == digest:
        temporary.unlink()  # the other file stays, because a reader may have it open
    else:
        _place(temporary, target)
    return {"name": target.name, "sha256": digest, "bytes": size}


def keep_names(change: Writing, checksum: str) -> None:
    """Keep the table of names that was made of the KB with this checksum: no name has changed since."""
    before, now = (NAMES_PREFIX + each[:16] for each in (checksum, change.settings["checksum"]))
    for table in change.folder.glob(f"{before}*"):
        with suppress(OSError):
            table.replace(table.with_name(table.name.replace(before, now)))


def temporary_path(folder: Path, suffix: str) -> Path:
    """A new path in a KB folder, which is swept when the writing ends."""
    return folder / f"{_TEMPORARY}{uuid.uuid4().hex}{suffix}"


def write_settings(database: sqlite3.Connection, settings: Settings) -> None:
    text = json.dumps(settings, indent=1, sort_keys=True)
    database.execute("INSERT OR REPLACE INTO setting VALUES ('kb', ?)", (text,))


@contextmanager
def writing(path: str | Path) -> Iterator[Writing]:
    """A KB folder to change; PelError if there is no KB, or as ``folder_lock`` raises it."""
    folder = Path(path).absolute()
    checked_settings(folder)  # if there is no KB, no folder is touched
    with folder_lock(folder):
        settings = checked_settings(folder)
        with closing(connected(folder / KB_FILE, to_write=True)) as database:
            (folder / JOURNAL).unlink(missing_ok=True)  # of a change that had not begun
            database.execute(f"PRAGMA cache_size = -{_CACHE}")
            yield Writing(folder, settings, database)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keeps other writers out of a KB folder, which is made if need be, and sweeps it at the end.

    PelError if it holds something else, cannot be written to, or another process is writing to it.
    """
    with readable(folder):
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        if folder.is_file():
            raise PelError(f"{folder}: is a file", "choose a folder")
        present = [] if folder in made else list(folder.iterdir())
        if present:
            check_plain(folder)
    names = [path.name for path in present]
    if KB_FILE not in names:
        for name in names:
            if name != LOCK and not name.startswith(CHUNKS_PREFIX) and not _SWEPT.match(name):
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
            for path in made:
                path.rmdir()


def put_in_place(database: Path, folder: Path) -> None:
    """Makes a finished database that of a folder, with its checksums."""
    with suppress(PelError, sqlite3.Error, OSError):
        # Else SQLite would apply the old journal to the new file.
        connected(folder / KB_FILE).close()
    (folder / JOURNAL).unlink(missing_ok=True)
    (folder / CHECKSUMS).unlink(missing_ok=True)
    _place(database, folder / KB_FILE)
    write_checksums(folder)


def _place(temporary: Path, path: Path) -> None:
    """Puts a finished file in its place, on the disk."""
    to_disk(temporary)
    os.replace(temporary, path)
    with suppress(OSError):  # it is in place; not every file system can sync folders
        to_disk(path.parent)


def checked_settings(folder: Path) -> Settings:
    """What the KB of a folder says of itself; errors as of ``Store.settings``."""
    with closing(Store(folder)) as store:
        return store.settings()


def write_checksums(folder: Path) -> None:
    """Writes size and SHA-256 of the database, for ``verify``. The next change deletes them."""
    path, temporary = folder / KB_FILE, temporary_path(folder, ".json")
    database = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    temporary.write_text(json.dumps({KB_FILE: database}, indent=1) + "\n")
    _place(temporary, folder / CHECKSUMS)


def _sweep(folder: Path) -> None:
    """Removes our files that the database does not name, except those that a reader has locked."""
    kept = set()
    if (folder / KB_FILE).exists():
        try:
            settings = checked_settings(folder)
        except PelError:
            return  # it is damaged: nothing tells which files it needs
        kept = {file["name"] for file in vector_files(settings)}
        names = f"{NAMES_PREFIX}{settings['checksum'][:16]}"
        kept |= {path.name for path in folder.glob(f"{names}*")}
    for path in folder.iterdir():
        if _SWEPT.match(path.name) and path.name not in kept:
            remove_unless_locked(path)
