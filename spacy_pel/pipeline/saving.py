"""A component that is saved as some files in a folder, or as the same in one string of bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import spacy.util
import srsly

from ..errors import PelError
from ..system.whole_files import whole_file

# What was saved: its file, or its bytes.
Saved = Path | bytes


class Part(NamedTuple):
    """A file of a saved component.

    dump: gives its bytes, is told the path, None where there is no file; None if the component has
    nothing of the kind. load: takes what was saved. missing: called if nothing was; None: an error.
    """

    dump: Callable[[Path | None], bytes] | None
    load: Callable[[Saved], None]
    missing: Callable[[], None] | None = None


class SavedPipe:
    """Of a component that says what its parts are; they are loaded in this order.

    To be named before spaCy's own class, whose saving it takes the place of.
    """

    def parts(self) -> dict[str, Part]:
        raise NotImplementedError

    def to_disk(self, path: os.PathLike, *, exclude: Iterable[str] = ()) -> None:
        """Save the component in a folder."""
        writers = {name: partial(_write, part) for name, part in self.parts().items()}
        spacy.util.to_disk(Path(path), writers, exclude)

    def from_disk(self, path: os.PathLike, *, exclude: Iterable[str] = ()):
        """Load what ``to_disk`` saved."""
        readers = {name: partial(_load_file, part) for name, part in self.parts().items()}
        spacy.util.from_disk(Path(path), readers, exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The component as bytes."""
        parts = self.parts().items()
        dumps = {name: partial(part.dump, None) for name, part in parts if part.dump}
        return spacy.util.to_bytes(dumps, exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()):
        """Load what ``to_bytes`` gave."""
        saved, parts = srsly.msgpack_loads(data), self.parts()
        loads = {name: part.load for name, part in parts.items()}
        spacy.util.from_dict(saved, loads, exclude)
        for name, part in parts.items():
            if name in saved or name.split(".")[0] in exclude:  # as spaCy names them
                continue
            if part.missing is None:
                raise PelError(f'no "{name}" in these bytes', "give what to_bytes gave")
            part.missing()
        return self


def content(saved: Saved) -> bytes:
    """The bytes that were saved."""
    return saved if isinstance(saved, bytes) else saved.read_bytes()


def _write(part: Part, file: Path) -> None:
    if part.dump:
        # A new file in the place of an old one, from which a pipeline may have its weights.
        with whole_file(file, "xb") as opened:
            opened.write(part.dump(file))
    else:
        file.unlink(missing_ok=True)  # of a component that was saved there before


def _load_file(part: Part, file: Path) -> None:
    if part.missing and not file.is_file():
        part.missing()
    else:
        part.load(file)
