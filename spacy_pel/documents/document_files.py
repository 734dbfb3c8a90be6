"""Files of documents as a stream."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import PelError
from .document_stream import DocumentStream, RawDocument
from .format import Fault, Format, Place, place_text
from .remote_files import RemoteFile
from .text import WHOLE_FILE


class DocumentFile(NamedTuple):
    """A file of documents.

    Attributes:
        name: For messages.
        path: Where it is; None for standard input.
        format: Its format.
    """

    name: str
    path: Path | RemoteFile | None
    format: Format

    @property
    def size(self) -> int | None:
        """Its bytes; None for standard input."""
        if self.path is None:
            return None
        return self.path.size if isinstance(self.path, RemoteFile) else self.path.stat().st_size


class FileStream(DocumentStream):
    """The documents of files, each of which is a source."""

    def __init__(self, files: list[DocumentFile]) -> None:
        self.files = files
        sizes = [file.size for file in files]
        self.total = None if None in sizes else sum(sizes)  # type: ignore[arg-type]
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
            yield file.name, self._documents(file)

    def _documents(self, source: DocumentFile) -> Iterator[RawDocument]:
        name, _, format = source
        assert format.input is not None
        place: Place = ""
        try:
            with self._bytes_of(source) as file:
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
    def _bytes_of(self, source: DocumentFile) -> Iterator[Any]:
        path = source.path
        if path is None:
            yield sys.stdin.buffer
            return
        try:
            with path.opened() if isinstance(path, RemoteFile) else open(path, "rb") as self._open:
                zipped = path.name.lower().endswith(".gz")
                yield gzip.GzipFile(fileobj=self._open) if zipped else self._open
        finally:
            self._open = None
            self._before += source.size or 0


def files_in(folder: Path, format_of: Callable[[str], Format | None]) -> list[DocumentFile]:
    """The files in a folder and in the folders below it, by name; see ``files_of``."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return files_of([(path.relative_to(folder).as_posix(), path) for path in paths], format_of)


def files_of(
    found: Sequence[tuple[str, Path | RemoteFile]], format_of: Callable[[str], Format | None]
) -> list[DocumentFile]:
    """The files of a folder that are read; hidden ones are not.

    Args:
        found: Their names, relative to the folder, and where they are.
        format_of: Gives the format of a file by its name; None if it is passed over. A file of
            plain text is one document.
    """
    files = []
    for name, path in found:
        format = format_of(path.name)
        if format and not any(part.startswith(".") for part in name.split("/")):
            if format.name == "text":
                format = format._replace(input=WHOLE_FILE)
            files.append(DocumentFile(name, path, format))
    return files
