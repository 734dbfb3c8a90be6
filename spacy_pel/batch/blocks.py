"""The finished blocks of a long job, one file per block.

A block is a run of consecutive documents or entities. Its file is written atomically. A killed run loses
only the blocks in progress, and the next run makes only the missing ones.
"""

import json
import logging
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

# The folder of the entries. Programs that read a folder of tables ignore hidden folders.
ENTRIES = ".pel"
_SETTINGS, _SCRATCH = "settings.json", "new-"


class Blocks:
    """The finished blocks in a folder, by name. Several processes may write blocks at the same time.

    A block is a file and an entry. The entry has the digest of the block's input and the result of writing
    it. The entry is written last and removed first, so a block with an entry is complete. Processes that
    write the same block write the same bytes.
    """

    def __init__(self, folder: Path, suffix: str = ".part") -> None:
        self.folder = folder
        self.entries = folder / ENTRIES
        self.suffix = suffix

    def path(self, name: str) -> Path:
        """Return the file of a block."""
        return self.folder / f"{name}{self.suffix}"

    def _entry(self, name: str) -> Path:
        return self.entries / f"{name}.json"

    def result(self, name: str, digest: str = "") -> Any:
        """Return the result that ``write`` stored for a block, as plain data.

        The result is None if the block is missing, is incomplete, or was made from input with another digest.
        """
        try:
            entry = json_object(self._entry(name).read_text("utf8"))
            is_complete = entry["digest"] == digest and self.path(name).is_file()
            return entry["result"] if is_complete else None
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def write(self, name: str, write: Callable[[Path], T], digest: str = "") -> T:
        """Write a block and its entry, and return the result.

        Args:
            name: The name of the block.
            write: Writes the file to a path and returns plain data, not None. It may leave other files in the
                folder of the path; they are removed.
            digest: The digest of the input.
        """
        path, entry = self.path(name), self._entry(name)
        with TemporaryDirectory(dir=self.entries, prefix=_SCRATCH) as scratch:
            new = Path(scratch, "block")
            result = write(new)
            to_disk(new)
            for file_path in (path, entry):
                file_path.parent.mkdir(parents=True, exist_ok=True)
            # An empty entry marks the block as incomplete, and ``keep_only`` still finds it.
            with open(entry, "w", opener=opened_itself) as file:
                file.write("{}")
            new.replace(path)
        to_disk(path.parent)
        with whole_file(entry) as file:
            json.dump({"digest": digest, "result": result}, file)
        return result

    def names(self) -> list[str]:
        """Return the names of all blocks with an entry."""
        files = (path.relative_to(self.entries).as_posix() for path in self.entries.rglob("*.json"))
        return sorted(name.removesuffix(".json") for name in files if name != _SETTINGS)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all other blocks."""
        for name in set(self.names()) - set(names):
            self.path(name).unlink(missing_ok=True)
            self._entry(name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all blocks, and the folder if it is then empty."""
        self.keep_only(())
        shutil.rmtree(self.entries)
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
    """Open a folder of blocks to fill, under a lock that admits one process.

    Args:
        folder: The folder, which is made if it is missing.
        settings: Everything except the input that determines the content of the blocks, as plain data.
        suffix: The suffix of the files.
        restart: Remove blocks with other settings, which otherwise are an error.

    Raises:
        PelError: The folder has blocks with other settings or other files, or another process is writing to
            it.
    """
    entries = folder / ENTRIES
    if folder.exists() and not entries.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PelError(f"{folder}: holds other files", "move them, or give a new name")
    entries.mkdir(parents=True, exist_ok=True)
    with writer_lock(entries):  # before anything in the folder changes
        blocks, path = Blocks(folder, suffix), entries / _SETTINGS
        try:
            for abandoned in entries.glob(f"{_SCRATCH}*"):
                shutil.rmtree(abandoned)
            settings = json.loads(json.dumps(settings))
            try:
                before = json_object(path.read_text("utf8")) if path.exists() else settings
            except ValueError as error:
                problem = f"{path}: is damaged ({error})"
                raise PelError(problem, f"remove {folder} to start again") from error
            if changed := changed_settings(before, settings):
                if not restart:
                    problem = f"{folder}: was made with another {changed}"
                    raise PelError(problem, "give a new folder, or remove this one")
                logger.info("%s: was begun with another %s; starting again", folder, changed)
                blocks.keep_only(())
            with whole_file(path) as file:
                json.dump(settings, file)
            yield blocks
        finally:
            if entries.exists() and not blocks.names():
                blocks.remove()


def changed_settings(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the names of the settings that differ, for messages."""
    return ", ".join(sorted(k for k in {*before, *now} if before.get(k) != now.get(k)))
