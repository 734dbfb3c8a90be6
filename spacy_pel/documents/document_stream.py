"""A stream of documents: from files, here or behind a URL that fsspec opens, or from elsewhere."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from posixpath import relpath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ..errors import PelError
from .docs import make_doc
from .document import Document
from .format import MOST_MENTIONS, BoundedFile, Fault, Format, LineError, Place, place_text

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


class RawDocument(NamedTuple):
    """A document of an input that is not checked yet."""

    name: str  # the file that it is from, for messages; "" if the data says it
    place: Place  # where in the file it begins
    data: Any  # see ``Input.split``; or a Document that is checked already
    format: Format  # of the data

    @property
    def where(self) -> str:
        """File and place, for messages."""
        return ", ".join(filter(None, (self.name, place_text(self.place))))

    @property
    def packed(self) -> bytes:
        """The data as bytes, and what format they are of."""
        data = self.data
        if not isinstance(data, bytes):
            data = json.dumps(data, default=str).encode()
        return f"{self.format.name} {len(data)} ".encode() + data

    def document(self, spans_key: str | None = None) -> Document:
        """The document; PelError, in one line, if it cannot be read. For the key see ``Input``."""
        with self._placed_errors():
            return self._read(spans_key)

    def doc(self, nlp: Language, spans_key: str | None) -> Doc:
        """The Doc of the document, to be linked; see ``make_doc`` and ``document``."""
        with self._placed_errors():
            read = self.format.input
            if read and read.doc and not isinstance(self.data, Fault):
                return read.doc(nlp, self.data)
            return make_doc(nlp, self._read(spans_key), spans_key)

    def _read(self, spans_key: str | None) -> Document:
        document = self.data
        if isinstance(document, Fault):
            raise PelError(*document)
        if not isinstance(document, Document):
            assert self.format.input is not None
            document = self.format.input.document(self.data, spans_key)
        if len(document.mentions or ()) > MOST_MENTIONS:
            raise PelError(f"more than {MOST_MENTIONS:,} mentions in a document", "split it")
        return document

    @contextmanager
    def _placed_errors(self) -> Iterator[None]:
        """Errors get file and place before them."""
        try:
            yield
        except LineError as error:
            assert isinstance(self.place, int)
            raise error.at(self._replace(place=self.place + error.line).where) from error
        except PelError as error:
            raise (error.at(self.where) if self.where else error) from error
        except ValueError as error:
            raise PelError(f"{self.where}: {error}", "correct the document") from error


class DocumentStream:
    """Documents of one or more sources, for example files. It can be read again and again."""

    total: int | None = None  # bytes of the input; None if that is not known
    position: int = 0  # bytes that have been read

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        """The sources, in their order: a name for messages, and all documents of each.

        What cannot be read, such as the rest of a damaged file, is a RawDocument with a Fault.
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[RawDocument]:
        for _, documents in self.documents_by_source():
            yield from documents


class ChainedStream(DocumentStream):
    """The documents of several streams, one stream after the other."""

    def __init__(self, streams: Sequence[DocumentStream]) -> None:
        self.streams = streams
        totals = [stream.total for stream in streams]
        self.total = None if None in totals else sum(totals)  # type: ignore[arg-type]
        self._before = 0
        self._current: DocumentStream | None = None

    @property
    def position(self) -> int:  # type: ignore[override]
        return self._before + (self._current.position if self._current else 0)

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        self._before, self._current = 0, None
        for stream in self.streams:
            self._before, self._current = self.position, stream
            yield from stream.documents_by_source()


def checked_documents(documents: Iterable[Document], format_name: str) -> Iterator[RawDocument]:
    """Documents that have been read and checked, as those of a stream.

    A PelError of theirs, which names the place, becomes a Fault.
    """
    format = Format(format_name, ())
    try:
        for document in documents:
            yield RawDocument("", f"document {document.id}", document, format)
    except PelError as error:
        yield RawDocument("", "", Fault(error.problem, error.remedy), format)


# Files


class DocumentFile(NamedTuple):
    """A file of documents. Standard input has neither URL nor size."""

    name: str  # for messages
    url: str | None  # or its path
    size: int | None  # in bytes
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
        return self._before + (self._open.tell() if self._open else 0)

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
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


def _opened(url: str) -> BinaryIO:
    if "://" not in url:
        return open(url, "rb")
    import fsspec

    with _one_line_errors(url):
        return fsspec.open(url, "rb").open()


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
