"""A component that is saved as some files in a folder, or as the same in one string of bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import spacy.util
import srsly

from ..errors import PelError
from ..system.whole_files import whole_file

# What was saved: its file, or its bytes.
Saved = Path | bytes


class SavedFile(NamedTuple):
    """One file of a saved component: how it is written and read."""

    # Gives the file's bytes. It is given the path of the file, or None if the component is saved as
    # bytes. None: the component has nothing to write.
    dump: Callable[[Path | None], bytes] | None
    load: Callable[[Saved], None]  # takes what was saved
    # Is called if nothing was saved; None: that is an error.
    missing: Callable[[], None] | None = None

    def write(self, path: Path) -> None:
        """Write the file; without anything to write remove that of a component saved before."""
        if self.dump:
            # A new file replaces an old one whole: the pipeline may have its weights mapped from it.
            with whole_file(path, "xb") as opened:
                opened.write(self.dump(path))
        else:
            path.unlink(missing_ok=True)

    def read(self, path: Path) -> None:
        """Read the file."""
        if self.missing and not path.is_file():
            self.missing()
        else:
            self.load(path)


class SavedPipe:
    """A component that lists the files that it is saved as. They are loaded in the order listed.

    As a base class it stands before spaCy's own, whose saving it replaces. In its methods ``exclude``
    has the names of files that are left out.
    """

    def saved_files(self) -> dict[str, SavedFile]:
        """The files of the component, by their names in its folder."""
        raise NotImplementedError

    def to_disk(self, path: os.PathLike, *, exclude: Iterable[str] = ()) -> None:
        """Save the component in a folder."""
        writers = {name: file.write for name, file in self.saved_files().items()}
        spacy.util.to_disk(Path(path), writers, exclude)

    def from_disk(self, path: os.PathLike, *, exclude: Iterable[str] = ()):
        """Load what ``to_disk`` saved."""
        readers = {name: file.read for name, file in self.saved_files().items()}
        spacy.util.from_disk(Path(path), readers, exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The component as bytes."""
        files = {name: file.dump for name, file in self.saved_files().items() if file.dump}
        dumps = {name: lambda dump=dump: dump(None) for name, dump in files.items()}
        return spacy.util.to_bytes(dumps, exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()):
        """Load what ``to_bytes`` gave.

        Raises:
            PelError: A file is missing that every component of the kind has.
        """
        saved, files = srsly.msgpack_loads(data), self.saved_files()
        loads = {name: file.load for name, file in files.items()}
        spacy.util.from_dict(saved, loads, exclude)
        for name, file in files.items():
            if name in saved or name.split(".")[0] in exclude:  # as spaCy names them
                continue
            if file.missing is None:
                raise PelError(f'no "{name}" in these bytes', "give what to_bytes gave")
            file.missing()
        return self


def content(saved: Saved) -> bytes:
    """The bytes that were saved."""
    return saved if isinstance(saved, bytes) else saved.read_bytes()
