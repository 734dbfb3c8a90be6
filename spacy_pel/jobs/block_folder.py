"""A folder of linked blocks: one file a block, each whole, and what says so beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

from ..documents.format import Output
from ..errors import PelError
from ..kb.folder.lock import writer_lock
from ..system.whole_files import whole_file
from .output_parts import (
    LinkedCounts,
    PartEntry,
    differing,
    read_entry,
    settings_of,
    write_entry,
    write_json,
)

_KEPT = (
    ".pel"  # the folder of the entries and of the manifest; programs that read tables pass over it
)
_MANIFEST = "manifest.json"


class BlockFolder:
    """The files of an output folder, by the names of their blocks.

    A block is a file and its entry, which says that the file is whole and which documents it was
    made of. The entry is written last and removed first. It stays, so that a later run leaves out
    what is done: memory holds no list of documents.

    Several processes may write blocks. If two write the same block, they write the same bytes.
    """

    def __init__(self, folder: Path, suffix: str) -> None:
        """Take a folder. The names of its files end in the suffix."""
        self.folder = folder
        self.suffix = suffix

    def finished(self, name: str, digest: str) -> LinkedCounts | None:
        """The counts of a block, or None if no file was made of these documents."""
        entry = read_entry(self._entry(name)) if self.path(name).is_file() else None
        return entry.counts if entry and entry.digest == digest else None

    def write(
        self, name: str, digest: str, write: Callable[[Path], LinkedCounts], output: Output
    ) -> LinkedCounts:
        """Keep what ``write`` writes to a path as the file of a block, and return what it returns.

        Args:
            name: The name of the block.
            digest: The digest of its documents.
            write: Writes them as a part of the output.
            output: Makes a file of the part.
        """
        with TemporaryDirectory(prefix="spacy-pel-") as scratch:
            part, joined = Path(scratch, "part"), Path(scratch, "joined")
            counts = write(part)
            output.join([part], joined)
            self._entry(name).unlink(missing_ok=True)
            with whole_file(self.path(name), "xb") as file, open(joined, "rb") as made:
                copyfileobj(made, file)
        write_entry(self._entry(name), PartEntry(digest, counts))
        return counts

    def keep_only(self, names: Collection[str]) -> None:
        """Remove the files of all other blocks: their documents are in the input no more."""
        kept = {self.path(name) for name in names}
        ours = re.compile(rf".+-\d{{8}}{re.escape(self.suffix)}")
        for path in [p for p in self.folder.rglob(f"*{self.suffix}") if ours.fullmatch(p.name)]:
            if path not in kept:
                name = path.relative_to(self.folder).as_posix().removesuffix(self.suffix)
                self._entry(name).unlink(missing_ok=True)
                path.unlink()

    def path(self, name: str) -> Path:
        """The file of a block."""
        return self.folder / f"{name}{self.suffix}"

    def _entry(self, name: str) -> Path:
        return self.folder / _KEPT / f"{name}.json"


@contextmanager
def block_folder(folder: Path, suffix: str, settings: dict[str, Any]) -> Iterator[BlockFolder]:
    """The output folder, for the time of a ``with`` block in which one process fills it.

    Args:
        folder: The folder, which may hold the blocks of an earlier run.
        suffix: What the names of its files end in.
        settings: All that decides what is in the files, as plain data.

    Raises:
        PelError: The folder holds other files or blocks of other settings, or another process is
            writing to it.
        OSError: It cannot be written to.
    """
    kept = folder / _KEPT
    if folder.exists() and not kept.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PelError(f"{folder}: holds other files", "give a new folder")
    kept.mkdir(parents=True, exist_ok=True)
    with writer_lock(kept):
        manifest = kept / _MANIFEST
        before = settings_of(manifest) if manifest.exists() else settings
        if before != settings:
            raise PelError(
                f"{folder}: was linked with another {differing(before, settings)}",
                "give a new folder, or remove this one",
            )
        write_json(manifest, settings)
        yield BlockFolder(folder, suffix)
