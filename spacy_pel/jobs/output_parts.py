"""The parts of an output file, each written whole beside it: a crash loses one part at most."""

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

from ..documents import RawDocument
from ..errors import PelError
from ..kb.folder.lock import writer_lock
from ..system.json_lines import json_object
from ..system.whole_files import to_disk, whole_file

SUFFIX = ".parts"
_MANIFEST = "manifest.json"
# The files that a run may leave: its lock, parts and their entries, the manifest, and the parts that
# are being joined, also to a corpus (DuckDB has a name of its own for a file that is not whole yet).
_OURS = re.compile(
    r"\..*|\d{6}\.(part|json|tmp|joint)|manifest\.(json|tmp)|(tmp_)?joined(\.tmp)?|vectors\.npy"
)


class LinkedCounts(NamedTuple):
    """What was linked.

    Attributes:
        documents: The number of documents that were linked.
        mentions: The number of their mentions.
        skipped: A message for each document that could not be linked.
    """

    documents: int = 0
    mentions: int = 0
    skipped: tuple[str, ...] = ()

    def __add__(self, other: LinkedCounts) -> LinkedCounts:  # type: ignore[override]
        return LinkedCounts(*(mine + others for mine, others in zip(self, other)))


class PartEntry(NamedTuple):
    """What is known of a part that is whole.

    Attributes:
        digest: That of the documents it was made of.
        counts: What is in it.
    """

    digest: str
    counts: LinkedCounts


def read_entry(path: Path) -> PartEntry | None:
    """The entry in a file; None if there is none, or it is damaged: the part is then made again."""
    try:
        entry = json_object(path.read_text("utf8"))
        documents, mentions, skipped = entry["counts"]
        counts = LinkedCounts(int(documents), int(mentions), tuple(map(str, skipped)))
        return PartEntry(str(entry["digest"]), counts)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_entry(path: Path, entry: PartEntry) -> None:
    """Write an entry, whole or not at all."""
    write_json(path, entry._asdict())


class OutputParts:
    """The numbered parts of an output file, in a folder of their own.

    A part is two files: the part itself, and its entry, which says that the part is whole. The
    entry is written last and removed first. It holds the digest of the documents that the part was
    made of: the part is finished for these documents alone.

    Attributes:
        folder: The folder of the parts.
        is_changed: Whether a part was found that was made of other documents.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_changed = False

    def finished(self, number: int, digest: str) -> LinkedCounts | None:
        """The counts of a part, or None if no part was made of these documents."""
        if not self.path(number).is_file():  # a run was killed while it removed the parts
            return None
        entry = read_entry(self._entry(number))
        if entry is None:
            return None
        is_same = entry.digest == digest
        self.is_changed |= not is_same
        return entry.counts if is_same else None

    def write(
        self, number: int, digest: str, write: Callable[[Path], LinkedCounts]
    ) -> LinkedCounts:
        """Keep what ``write`` writes to the path that it is given, and return what it returns."""
        self._entry(number).unlink(missing_ok=True)
        counts = write(self.path(number))
        to_disk(self.path(number))
        write_entry(self._entry(number), PartEntry(digest, counts))
        return counts

    def join(self, n: int, join: Callable[[Sequence[Path], Path], None], output: Path) -> None:
        """Make the output of the first n parts, and put it in its place whole."""
        joined = self.folder / "joined"
        join([self.path(number) for number in range(n)], joined)
        to_disk(joined)
        os.replace(joined, output)

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"{number:06d}.part"

    def _entry(self, number: int) -> Path:
        return self.folder / f"{number:06d}.json"


@contextmanager
def output_parts(
    output: Path, settings: dict[str, Any], report: Callable[[str], object]
) -> Iterator[OutputParts]:
    """The parts of an output file, for the time of a ``with`` block.

    Parts that an earlier run left are kept if it had the same settings, and removed if not. When
    the block ends well, all parts are removed, as the output is there. After an error they stay for
    the next run.

    Args:
        output: The file that is made of the parts.
        settings: All that decides what is in the parts, as plain data.
        report: Called with a line where parts of other settings are removed.

    Raises:
        PelError: The output is a folder or a device, another process is writing to it, or the
            folder for its parts holds other files.
        OSError: The folder of the output cannot be written to.
    """
    if output.exists() and not output.is_file():
        raise PelError(f"{output}: is a folder or a device", "give the path of a file")
    folder = output.with_name(output.name + SUFFIX)
    folder.mkdir(parents=True, exist_ok=True)
    if any(not _is_ours(path.name) for path in folder.iterdir()):
        raise PelError(f"{folder}: holds other files", "move them, or give the output another name")
    with writer_lock(folder):  # a process that does not get it must leave the folder alone
        try:
            _begin(folder, settings, report)
            yield OutputParts(folder)
            shutil.rmtree(folder)
        finally:
            if folder.exists() and not any(folder.glob("[0-9]*.json")):
                shutil.rmtree(folder, ignore_errors=True)


def documents_digest(records: Sequence[RawDocument]) -> str:
    """A digest of documents: of their data and formats, wherever they stand."""
    hash = hashlib.blake2b(digest_size=16)
    for record in records:
        hash.update(record.packed)
    return hash.hexdigest()


def say_where_it_goes_on(
    total: LinkedCounts, is_changed: bool, say: Callable[[str], object], done: str
) -> None:
    """Tell how much an earlier run has done, and whether the input has changed since.

    Args:
        total: The counts of the parts that are kept.
        is_changed: See ``OutputParts``.
        say: Called with each line.
        done: What was done to the documents: "linked".
    """
    documents = total.documents + len(total.skipped)
    if is_changed:
        say(f"The input has changed from about document {documents + 1:,} on")
    if documents:
        say(f"Going on after {documents:,} documents that were {done} before")


def _is_ours(name: str) -> bool:
    """Whether a file of this name may be one that an interrupted run left."""
    return _OURS.fullmatch(name) is not None


def _begin(folder: Path, settings: dict[str, Any], report: Callable[[str], object]) -> None:
    manifest = folder / _MANIFEST
    before = settings_of(manifest) if manifest.exists() else None
    if before == settings:
        return
    if before is not None:
        report(f"{folder}: was begun with another {differing(before, settings)}; starting again")
    for path in folder.iterdir():
        if not path.name.startswith("."):  # the lock
            path.unlink()
    write_json(manifest, settings)


def differing(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The names of the settings that are not the same, for messages."""
    return ", ".join(sorted(k for k in {*before, *now} if before.get(k) != now.get(k)))


def settings_of(manifest: Path) -> dict[str, Any]:
    """The settings that a run wrote; PelError if the file is damaged."""
    try:
        return json_object(manifest.read_text("utf8"))
    except ValueError as error:
        raise PelError(
            f"{manifest}: is damaged ({error})", f"remove {manifest.parent} to start again"
        ) from error


def write_json(path: Path, data: Any) -> None:
    """Write plain data, whole or not at all."""
    with whole_file(path) as file:
        file.write(json.dumps(data))
