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
from ..system.whole_files import to_disk

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
        try:
            entry = json_object(self._entry(number).read_text("utf8"))
            documents, mentions, skipped = entry["counts"]
            counts = LinkedCounts(int(documents), int(mentions), tuple(map(str, skipped)))
            is_same = entry["digest"] == digest
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):  # damaged: the part is made again
            return None
        self.is_changed |= not is_same
        return counts if is_same else None

    def write(
        self, number: int, digest: str, write: Callable[[Path], LinkedCounts]
    ) -> LinkedCounts:
        """Keep what ``write`` writes to the path that it is given, and return what it returns."""
        self._entry(number).unlink(missing_ok=True)
        counts = write(self.path(number))
        to_disk(self.path(number))
        _write_json(self._entry(number), {"digest": digest, "counts": counts})
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
    before = _settings_of(manifest) if manifest.exists() else None
    if before == settings:
        return
    if before is not None:
        changed = sorted(
            key for key in {*before, *settings} if before.get(key) != settings.get(key)
        )
        report(f"{folder}: was begun with another {', '.join(changed)}; starting again")
    for path in folder.iterdir():
        if not path.name.startswith("."):  # the lock
            path.unlink()
    _write_json(manifest, settings)


def _settings_of(manifest: Path) -> dict[str, Any]:
    """The settings that a run wrote; PelError if the file is damaged."""
    try:
        return json_object(manifest.read_text("utf8"))
    except ValueError as error:
        raise PelError(
            f"{manifest}: is damaged ({error})", f"remove {manifest.parent} to start again"
        ) from error


def _write_json(path: Path, data: Any) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data), encoding="utf8")
    to_disk(temporary)
    os.replace(temporary, path)
