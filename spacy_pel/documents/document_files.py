"""Files of documents, here or behind a URL that fsspec opens, as a stream."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from posixpath import relpath
from typing import BinaryIO, NamedTuple

from ..errors import PelError
from .document_stream import DocumentStream, RawDocument
from .format import BoundedFile, Fault, Format, Place, place_text


class DocumentFile(NamedTuple):
    """A file of documents.

    Attributes:
        name: For messages.
        url: Its path or URL; None for standard input.
        size: Its bytes; None for standard input.
        format: Its format.
    """

    name: str
    url: str | None
    size: int | None
    format: Format


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
        name, format = source.name, source.format
        assert format.input is not None
        place: Place = ""
        try:
            with self._bytes_of(source) as file:
                bounded = BoundedFile(file)
                for place, data in format.input.split(bounded, name):
                    yield RawDocument(name, place, data, format)
                    bounded.size = 0
            return
        except (EOFError, gzip.BadGzipFile, zlib.error):
            problem, remedy = "damaged gzip", "fetch it again"
        except OSError as error:
            problem, remedy = f"cannot be read ({error.strerror})", "check it"
        except PelError as error:
            problem, remedy = error.problem, error.remedy
        after = f" after {place_text(place)}" if place else ""
        yield RawDocument(name, "", Fault(f"{problem}{after}", remedy), format)

    @contextmanager
    def _bytes_of(self, source: DocumentFile) -> Iterator[BinaryIO]:
        if source.url is None:
            yield sys.stdin.buffer
            return
        try:
            with _opened(source.url) as self._open:
                zipped = source.url.lower().endswith(".gz")
                yield gzip.GzipFile(fileobj=self._open) if zipped else self._open
        finally:
            self._open = None
            self._before += source.size or 0


def files_behind(url: str) -> list[tuple[str, str, int]]:
    """The file behind a URL, or all in the folder behind it: name, URL and bytes of each, by name.

    The name of a file in a folder is relative to the folder.
    """
    from fsspec.core import url_to_fs

    with _one_line_errors(url):
        system, root = url_to_fs(url)
        found = system.find(root, detail=True)
    files = [(path, int(found[path]["size"] or 0)) for path in sorted(found)]
    if not files:
        raise PelError(f"{url}: no such file", "check the URL")
    if [path for path, _ in files] == [root]:
        return [(url, url, files[0][1])]
    return [(relpath(path, root), system.unstrip_protocol(path), size) for path, size in files]


def _opened(url: str) -> BinaryIO:
    """A file, open to be read."""
    if "://" not in url:
        return open(url, "rb")
    import fsspec

    with _one_line_errors(url):
        return fsspec.open(url, "rb").open()


@contextmanager
def _one_line_errors(url: str) -> Iterator[None]:
    """Each kind of storage has errors of its own: they become a PelError."""
    try:
        yield
    except ImportError as error:
        raise PelError(f"{url}: {error}", "install what opens such URLs, see fsspec") from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PelError(
            f"{url}: cannot be read ({reason})", "check the URL and your rights"
        ) from error
