"""Finished blocks of a long job, one file each: what stands there is not made again.

A block is documents or entities that follow one another. Its file appears whole. A run that was killed
loses no more than the blocks under way; the next one makes only what is missing.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ..errors import PelError
from ..io.lines import json_object
from ..io.whole_files import opened_itself, to_disk, whole_file, writer_lock

logger = logging.getLogger(__name__)
T = TypeVar("T")

# The folder of what is known of the blocks. Programs that read a folder of tables pass over it.
KEPT = ".pel"
_SETTINGS, _SCRATCH = "settings.json", "new-"


class Blocks:
    """The finished blocks in a folder, by name. Several processes may write at the same time.

    A block is a file and its entry. The entry is written last and removed first: it says that the
    file is whole, what it was made of, and what is in it. If two processes write one block, they
    write the same bytes.
    """

    def __init__(self, folder: Path, suffix: str = ".part") -> None:
        self.folder = folder
        self.kept = folder / KEPT  # what is known of the blocks
        self.suffix = suffix  # of their files

    def path(self, name: str) -> Path:
        """The file of a block."""
        return self.folder / f"{name}{self.suffix}"

    def _entry(self, name: str) -> Path:
        return self.kept / f"{name}.json"

    def finished(self, name: str, digest: str = "") -> Any:
        """What ``write`` has returned for a block, as plain data.

        None if the block is not there, is not whole, or was made of input with another digest.
        """
        try:
            entry = json_object(self._entry(name).read_text("utf8"))
            is_whole = entry["digest"] == digest and self.path(name).is_file()
            return entry["result"] if is_whole else None
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def write(self, name: str, write: Callable[[Path], T], digest: str = "") -> T:
        """Make the file of a block, of input with a digest.

        ``write`` writes it to the path that it is given. Other files in the folder of this path are
        removed. What it returns is plain data, and not None.
        """
        path, entry = self.path(name), self._entry(name)
        with TemporaryDirectory(dir=self.kept, prefix=_SCRATCH) as scratch:
            new = Path(scratch, "block")
            result = write(new)
            to_disk(new)
            for place in (path, entry):
                place.parent.mkdir(parents=True, exist_ok=True)
            with open(entry, "w", opener=opened_itself) as file:
                file.write("{}")  # not whole, and not forgotten
            os.replace(new, path)
        to_disk(path.parent)
        with whole_file(entry) as file:
            json.dump({"digest": digest, "result": result}, file)
        return result

    def names(self) -> list[str]:
        """The names of all blocks that have an entry."""
        found = (path.relative_to(self.kept).as_posix() for path in self.kept.rglob("*.json"))
        return sorted(name.removesuffix(".json") for name in found if name != _SETTINGS)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all blocks but these."""
        for name in set(self.names()) - set(names):
            self.path(name).unlink(missing_ok=True)
            self._entry(name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all blocks, and the folder if nothing else is in it."""
        self.keep_only(())
        shutil.rmtree(self.kept)
        with suppress(OSError):
            self.folder.rmdir()


@contextmanager
def block_folder(
    folder: Path,
    settings: dict[str, Any],
    *,
    suffix: str = ".part",
    restart: bool = False,
) -> Iterator[Blocks]:
    """A folder of blocks, for the time of a ``with`` block in which one process fills it.

    ``settings`` are all that decides what is in the blocks, apart from their input. Blocks that an
    earlier run made with others are removed if it may ``restart``, or else are an error. PelError
    also if the folder holds other files, or another process is writing to it.
    """
    kept = folder / KEPT
    if folder.exists() and not kept.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PelError(f"{folder}: holds other files", "move them, or give a new name")
    kept.mkdir(parents=True, exist_ok=True)
    with writer_lock(kept):  # a process that does not get it must leave the folder alone
        blocks, path = Blocks(folder, suffix), kept / _SETTINGS
        try:
            for abandoned in kept.glob(f"{_SCRATCH}*"):
                shutil.rmtree(abandoned)
            settings = json.loads(json.dumps(settings))
            try:
                before = json_object(path.read_text("utf8")) if path.exists() else settings
            except ValueError as error:
                problem = f"{path}: is damaged ({error})"
                raise PelError(problem, f"remove {folder} to start again") from error
            if other := differing(before, settings):
                if not restart:
                    problem = f"{folder}: was made with another {other}"
                    raise PelError(problem, "give a new folder, or remove this one")
                logger.info("%s: was begun with another %s; starting again", folder, other)
                blocks.keep_only(())
            with whole_file(path) as file:
                json.dump(settings, file)
            yield blocks
        finally:
            if kept.exists() and not blocks.names():
                blocks.remove()


def differing(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The names of the settings that are not the same, for messages."""
    return ", ".join(sorted(k for k in {*before, *now} if before.get(k) != now.get(k)))
