"""Files of documents as a stream."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import PelError
from .document_stream import DocumentStream, RawDocument
from .format import Fault, Format, Place, place_text
from .text import WHOLE_FILE


class DocumentFile(NamedTuple):
    """A file of documents.

    Attributes:
        name: for messages.
        path: where it is; None for standard input.
        format: its format.
    """

    name: str
    path: Path | None
    format: Format


class FileStream(DocumentStream):
    """The documents of files, each of which is a source."""

    def __init__(self, files: list[DocumentFile]) -> None:
        self.files = files
        paths = [file.path for file in files]
        self.total = sum(path.stat().st_size for path in paths if path) if all(paths) else None
        self._before = 0
        self._open: BinaryIO | None = None

    @property
    def position(self) -> int:  # type: ignore[override]
        """The bytes that have been read."""
        return self._before + (self._open.tell() if self._open else 0)

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        """See ``DocumentStream``."""
        self._before = 0
        for file in self.files:
            yield file.name, self._documents(*file)

    def _documents(self, name: str, path: Path | None, format: Format) -> Iterator[RawDocument]:
        assert format.input is not None
        place: Place = ""
        try:
            with self._bytes_of(path) as file:
                for place, data in format.input.split(file, name):
                    yield RawDocument(name, place, data, format)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            after = f" after {place_text(place)}" if place else ""
            yield RawDocument(name, "", Fault(f"damaged gzip{after}", "fetch it again"), format)
        except OSError as error:
            fault = Fault(f"cannot be read ({error.strerror})", "check it")
            yield RawDocument(name, "", fault, format)
        except PelError as error:
            yield RawDocument(name, "", Fault(error.problem, error.remedy), format)

    @contextmanager
    def _bytes_of(self, path: Path | None) -> Iterator[Any]:
        if path is None:
            yield sys.stdin.buffer
            return
        try:
            with open(path, "rb") as self._open:
                zipped = path.name.lower().endswith(".gz")
                yield gzip.GzipFile(fileobj=self._open) if zipped else self._open
        finally:
            self._open = None
            self._before += path.stat().st_size


def files_in(folder: Path, format_of: Callable[[str], Format | None]) -> list[DocumentFile]:
    """The files in a folder and in those below it, by name, but for hidden ones.

    Args:
        folder: the folder.
        format_of: from the name of a file to its format; None if it is passed over. A file of plain
            text is one document.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        format = format_of(path.name)
        if format and path.is_file() and not any(part.startswith(".") for part in name.parts):
            if format.name == "text":
                format = format._replace(input=WHOLE_FILE)
            found.append(DocumentFile(name.as_posix(), path, format))
    return found
