"""Documents of files, in any format."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from ..errors import PelError
from ..io.lines import is_gzip
from .doc_conversion import document_of_doc, make_doc
from .document import Document
from .formats.base import (
    BoundedFile,
    DocumentFile,
    Format,
    LineError,
    Place,
    place_text,
)
from .formats.lookup import WHOLE_TEXT, format_named, format_of, suffixes

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

Name = str | Path


class RawDocument(NamedTuple):
    """A document that has not been checked yet."""

    name: str  # of its file, for messages
    place: Place  # where it begins in the file; "" if it is the whole file
    data: Any  # see ``Input.split``
    format: Format  # of the data

    @property
    def where(self) -> str:
        """File and place, for messages."""
        return ", ".join(filter(None, (self.name, place_text(self.place))))

    @property
    def packed(self) -> bytes:
        """The format and the data as bytes, for comparisons of documents."""
        data = self.data
        if not isinstance(data, bytes):
            data = json.dumps(data, default=str).encode()
        return f"{self.format.name} {len(data)} ".encode() + data

    def document(self, spans_key: str | None = None, left_out: list[str] | None = None) -> Document:
        """Return the document.

        Args:
            spans_key: The mentions of a Doc to use; see ``document_of_doc``.
            left_out: A list to which a message is added for each mention that does not match its
                offsets. If None, such a mention raises an error.

        Raises:
            PelError: The document cannot be read.
        """
        with self._placed_errors():
            return self._read(spans_key, left_out)

    def doc(self, nlp: Language, spans_key: str | None, left_out: list[str] | None = None) -> Doc:
        """Return the Doc of the document to link; see ``make_doc`` and ``document``."""
        with self._placed_errors():
            make = self.format.reader.doc
            if make and not isinstance(self.data, PelError):
                return make(nlp, self.data)
            return make_doc(nlp, self._read(spans_key, left_out), spans_key)

    def _read(self, spans_key: str | None, left_out: list[str] | None) -> Document:
        if isinstance(self.data, PelError):
            raise self.data
        reader = self.format.reader
        if reader.doc:
            document = document_of_doc(reader.doc(None, self.data), spans_key)
        else:
            assert reader.document is not None  # an ``Input`` has one of the two
            document = reader.document(self.data)
        for fault in document.faults:
            if left_out is None:
                raise fault
            left_out.append(str(self._placed(fault)))
        return document._replace(faults=())

    def _placed(self, error: PelError) -> PelError:
        """Return the error with its file and place before the problem."""
        if isinstance(error, LineError) and isinstance(self.place, int):
            return error.at(self._replace(place=self.place + error.line).where)
        return error.at(self.where)

    @contextmanager
    def _placed_errors(self) -> Iterator[None]:
        """Add the file and the place to errors."""
        try:
            yield
        except PelError as error:
            raise self._placed(error) from error
        except ValueError as error:
            raise PelError(f"{self.where}: {error}", "correct the document") from error


class DocumentStream:
    """The documents of files, which can be read repeatedly."""

    def __init__(self, files: Iterable[DocumentFile]) -> None:
        self.files = list(files)
        sizes = [file.size for file in self.files if file.size is not None]
        # The bytes of all files; None if a size is unknown.
        self.total = sum(sizes) if len(sizes) == len(self.files) else None
        self._before = 0
        self._open: BinaryIO | None = None

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self._before + (self._open.tell() if self._open else 0)

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        """Yield the name of each file, for messages, and its documents.

        The data of a RawDocument is a PelError if it, or the rest of its file, cannot be read.
        """
        self._before = 0
        for file in self.files:
            yield file.name, self._documents(file)

    def __iter__(self) -> Iterator[RawDocument]:
        for _, documents in self.documents_by_source():
            yield from documents

    def _documents(self, source: DocumentFile) -> Iterator[RawDocument]:
        name, format = source.name, source.format
        place: Place = ""
        try:
            with self._bytes_of(source) as file:
                bounded = BoundedFile(file, name)
                for place, data in format.reader.split(bounded):
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
        yield RawDocument(name, "", PelError(f"{problem}{after}", remedy), format)

    @contextmanager
    def _bytes_of(self, source: DocumentFile) -> Iterator[BinaryIO]:
        if source.path is None:
            yield sys.stdin.buffer
            return
        try:
            with source.path.open("rb") as self._open:
                if is_gzip(source.path):
                    yield cast(BinaryIO, gzip.GzipFile(fileobj=self._open))
                else:
                    yield self._open
        finally:
            self._open = None
            self._before += source.size or 0


def open_documents(
    inputs: Name | Sequence[Name], format_name: str | None = None, *, with_ids: bool = False
) -> DocumentStream:
    """Open the documents of files, of folders, or of standard input.

    Args:
        inputs: Paths, or "-" for standard input. The files of a folder are read in order of their names.
            Other kinds of files are skipped, and a text file is one document.
        format_name: The format of the files. None: the longest suffix of a name decides, and standard
            input is text.
        with_ids: Whether mentions must have entity ids. Formats without ids are refused, or skipped
            in a folder.

    Raises:
        PelError: There is nothing to read.
    """
    named = None if format_name is None else format_named(format_name)
    readable = suffixes("input", with_ids=with_ids)
    kinds = f"give a file {readable}, each also .gz; a folder of such files; or - for stdin"

    def of_file(name: str) -> Format:
        """Return the format of a file with this name; PelError if it cannot be read."""
        format = named or format_of(name.lower().removesuffix(".gz"))
        if format is None:
            remedy = kinds if with_ids else f"name it with --from, or {kinds}"
            raise PelError(f"{name}: unknown kind of file", remedy)
        if format.input is None:
            raise PelError(f"{name}: {format.name} is an output format only", kinds)
        if with_ids and not format.input.has_ids:
            problem = f"{name}: {format.name} files have no entity ids"
            remedy = f"give it the suffix of its format if it is another one, or {kinds}"
            raise PelError(problem, remedy)
        return format

    def files(source: str) -> Iterator[DocumentFile]:
        if source == "-":
            if sys.stdin is None:
                raise PelError("stdin is closed", kinds)
            yield DocumentFile("stdin", None, None, of_file("stdin.txt"))
            return
        path = Path(source)
        if path.is_file():
            yield DocumentFile(source, path, path.stat().st_size, of_file(source))
            return
        if not path.is_dir():
            raise PelError(f"{source}: no such file", kinds)
        is_empty = True
        for file in sorted(path.rglob("*")):
            name = file.relative_to(path).as_posix()
            try:
                format = of_file(name)
            except PelError:
                continue
            if file.is_file() and not any(part.startswith(".") for part in name.split("/")):
                if format.name == "text":
                    format = WHOLE_TEXT
                yield DocumentFile(name, file, file.stat().st_size, format)
                is_empty = False
        if is_empty:
            raise PelError(f"{source}: no readable file in it", kinds)

    sources = [inputs] if isinstance(inputs, (str, Path)) else inputs
    return DocumentStream(file for source in sources for file in files(str(source)))
