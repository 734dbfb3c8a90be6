"""The parts of an output, each written whole beside it, so that a crash loses no more than one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..documents import Record
from ..errors import PelError
from ..kb.folder.lock import writer_lock

SUFFIX = ".parts"
_MANIFEST = "manifest.json"
# What a run may leave: its lock, parts and their entries, the manifest, what joins them (DuckDB has
# a name of its own for what is not whole yet).
_OURS = re.compile(r"\..*|\d{6}\.(part|json|tmp)|manifest\.(json|tmp)|(tmp_)?joined(\.tmp)?")


class Counts(NamedTuple):
    """What is in a part. skipped: the messages of the documents that are not."""

    documents: int = 0
    mentions: int = 0
    skipped: tuple[str, ...] = ()

    def __add__(self, other: Counts) -> Counts:  # type: ignore[override]
        return Counts(*(mine + others for mine, others in zip(self, other)))


class Parts:
    """The parts in a folder, by number: for each its data, and an entry that says it is whole.

    An entry is written last, and taken away first. It names the digest of the documents that the
    part was made of: only for these is the part finished.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_changed = False  # whether a part was found that was made of other documents

    def finished(self, number: int, digest: str) -> Counts | None:
        """What is in a part that was made of these documents; None if there is none."""
        try:
            entry = json.loads(self._entry(number).read_text("utf8"))
        except FileNotFoundError:
            return None
        if entry["digest"] != digest:
            self.is_changed = True
            return None
        documents, mentions, skipped = entry["counts"]
        return Counts(documents, mentions, tuple(skipped))

    def write(self, number: int, digest: str, write: Callable[[Path], Counts]) -> Counts:
        """Keeps what ``write`` writes to the path it is given, and gives what it returns."""
        self._entry(number).unlink(missing_ok=True)
        counts = write(self.path(number))
        _to_disk(self.path(number))
        _write_json(self._entry(number), {"digest": digest, "counts": counts})
        return counts

    def join(self, n: int, join: Callable[[Sequence[Path], Path], None], output: Path) -> None:
        """Makes the output of the first n parts; it takes its place whole."""
        joined = self.folder / "joined"
        join([self.path(number) for number in range(n)], joined)
        _to_disk(joined)
        os.replace(joined, output)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.part"

    def _entry(self, number: int) -> Path:
        return self.folder / f"{number:06d}.json"


@contextmanager
def parts_of(
    output: Path, settings: dict[str, Any], report: Callable[[str], object]
) -> Iterator[Parts]:
    """The parts of an output that were made with these settings, plain data.

    Parts that were made with others are removed, and it is reported. When the block ends well all
    are, as the output is there; when it does not, they stay for the next time.
    Raises PelError if the output is a folder or a device, another process is writing to it, or the
    folder for its parts holds other files; OSError if its folder cannot be written to.
    """
    if output.exists() and not output.is_file():
        raise PelError(f"{output}: is a folder or a device", "give the path of a file")
    folder = output.with_name(output.name + SUFFIX)
    folder.mkdir(parents=True, exist_ok=True)
    if any(not _is_ours(path.name) for path in folder.iterdir()):
        raise PelError(f"{folder}: holds other files", "move them, or give the output another name")
    with writer_lock(folder):  # who is refused it must leave the folder to who has it
        try:
            _begin(folder, settings, report)
            yield Parts(folder)
            shutil.rmtree(folder)
        finally:
            if folder.exists() and not any(folder.glob("[0-9]*.json")):
                shutil.rmtree(folder, ignore_errors=True)


def digest(records: Sequence[Record]) -> str:
    """What tells documents from others: of their data and formats, wherever they stand."""
    hash = hashlib.blake2b(digest_size=16)
    for record in records:
        hash.update(record.packed)
    return hash.hexdigest()


def _is_ours(name: str) -> bool:
    """Whether a file of this name may be of a run that was broken off."""
    return _OURS.fullmatch(name) is not None


def _begin(folder: Path, settings: dict[str, Any], report: Callable[[str], object]) -> None:
    manifest = folder / _MANIFEST
    before = json.loads(manifest.read_text("utf8")) if manifest.exists() else None
    if before == settings:
        return
    if before is not None:
        changed = sorted(
            key for key in {*before, *settings} if before.get(key) != settings.get(key)
        )
        report(f"{folder}: was begun with another {', '.join(changed)}; starting anew")
    for path in folder.iterdir():
        if not path.name.startswith("."):  # the lock
            path.unlink()
    _write_json(manifest, settings)


def _write_json(path: Path, data: Any) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data), encoding="utf8")
    _to_disk(temporary)
    os.replace(temporary, path)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
