"""Documents from files, here or behind a URL that fsspec opens, whatever their format."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from posixpath import relpath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ..errors import PelError
from .doc_conversion import document_of_doc, make_doc
from .document import Document
from .formats.base import (
    MAX_MENTIONS,
    BoundedFile,
    DocumentFile,
    Format,
    LineError,
    Place,
    place_text,
)
from .formats.brat import ANNOTATIONS
from .formats.lookup import WHOLE_TEXT, format_named, format_of, suffixes

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

Name = str | Path


class RawDocument(NamedTuple):
    """A document of an input that is not checked yet."""

    name: str  # the file that it is from, for messages
    place: Place  # where in the file it begins; "" for all of it
    data: Any  # see ``Input.split``
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

    def document(self, spans_key: str | None = None, left_out: list[str] | None = None) -> Document:
        """The document; PelError, in one line, if it cannot be read.

        Args:
            spans_key: Which mentions of a Doc are taken, see ``document_of_doc``.
            left_out: Gets a message for each mention that is not where its offsets say. None: such a
                mention is an error.
        """
        with self._placed_errors():
            return self._read(spans_key, left_out)

    def doc(self, nlp: Language, spans_key: str | None, left_out: list[str] | None = None) -> Doc:
        """The Doc of the document, to be linked; see ``make_doc`` and ``document``."""
        with self._placed_errors():
            made = self.format.input.doc
            if made and not isinstance(self.data, PelError):
                return made(nlp, self.data)
            return make_doc(nlp, self._read(spans_key, left_out), spans_key)

    def _read(self, spans_key: str | None, left_out: list[str] | None) -> Document:
        if isinstance(self.data, PelError):
            raise self.data
        _, read, _, made = self.format.input
        document = document_of_doc(made(None, self.data), spans_key) if made else read(self.data)
        if len(document.mentions or ()) + len(document.faults) > MAX_MENTIONS:
            raise PelError(f"more than {MAX_MENTIONS:,} mentions in a document", "split it")
        if document.faults and left_out is None:
            raise document.faults[0]
        for fault in document.faults:
            left_out.append(str(self._placed(fault)))
        return document._replace(faults=())

    def _placed(self, error: PelError) -> PelError:
        """The error with its file and place before it."""
        if isinstance(error, LineError):
            return error.at(self._replace(place=self.place + error.line).where)
        return error.at(self.where)

    @contextmanager
    def _placed_errors(self) -> Iterator[None]:
        """Errors get file and place before them."""
        try:
            yield
        except PelError as error:
            raise self._placed(error) from error
        except ValueError as error:
            raise PelError(f"{self.where}: {error}", "correct the document") from error


class DocumentStream:
    """The documents of files. It can be read again and again."""

    def __init__(self, files: Iterable[DocumentFile]) -> None:
        self.files = list(files)
        sizes = [file.size for file in self.files]
        # The bytes of all files; None if that is not known.
        self.total = None if None in sizes else sum(sizes)  # type: ignore[arg-type]
        self._before = 0
        self._open: BinaryIO | None = None

    @property
    def position(self) -> int:
        """The bytes that have been read."""
        return self._before + (self._open.tell() if self._open else 0)

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        """The name of each file, for messages, and all its documents.

        What cannot be read, such as the rest of a damaged file, is a RawDocument with a PelError.
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
                for place, data in format.input.split(bounded):
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
        sizes = {
            path: int(each["size"] or 0) for path, each in system.find(root, detail=True).items()
        }
    if not sizes:
        raise PelError(f"{url}: no such file", "check the URL")
    if list(sizes) == [root]:
        return [(url, url, sizes[root])]
    return [(relpath(p, root), system.unstrip_protocol(p), sizes[p]) for p in sorted(sizes)]


@contextmanager
def _one_line_errors(url: str) -> Iterator[None]:
    """Each kind of storage has errors of its own: they become a PelError."""
    try:
        yield
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        remedy = "check the URL and your rights, or install what opens such URLs (see fsspec)"
        raise PelError(f"{url}: cannot be read ({reason})", remedy) from error


def open_documents(
    given: Name | Sequence[Name], format_name: str | None = None, *, with_ids: bool = False
) -> DocumentStream:
    """The documents of files, of all files of folders, of splits, or of standard input.

    Args:
        given: One or several, each a path, or a URL that fsspec opens, or "-" for standard input. The
            files of a folder are read by name; files of other kinds are passed over, and a text file
            is one document.
        format_name: The format of files. None: the longest suffix of a name decides, and standard
            input is text.
        with_ids: Whether mentions must have entity ids. Formats that have none are then refused,
            and passed over in a folder.

    Raises:
        PelError: There is nothing to read.
    """
    named = None if format_name is None else format_named(format_name)
    readable = suffixes("input", with_ids=with_ids)
    kinds = f"give a file {readable}, each also .gz; a folder of such files; or - for stdin"

    def of_file(name: str) -> Format:
        """The format of a file of this name; PelError if it is not to be read."""
        format = named or format_of(name.lower().removesuffix(".gz"))
        if format is None:
            remedy = kinds if with_ids else f"name it with --from, or {kinds}"
            raise PelError(f"{name}: unknown kind of file", remedy)
        if format.input is None:
            raise PelError(f"{name}: {format.name} is a format that is only written", kinds)
        if with_ids and not format.input.has_ids:
            problem = f"{name}: {format.name} files have no entity ids"
            remedy = f"give it the suffix of another format if it is in that, or {kinds}"
            raise PelError(problem, remedy)
        return format

    def files(given: str) -> Iterator[DocumentFile]:
        if given == "-":
            if sys.stdin is None:
                raise PelError("stdin is closed", kinds)
            yield DocumentFile("stdin", None, None, of_file("stdin.txt"))
            return
        if "://" in given:
            found = files_behind(given)
        elif os.path.isfile(given):
            found = [(given, given, os.path.getsize(given))]
        elif os.path.isdir(given):
            paths = [path for path in sorted(Path(given).rglob("*")) if path.is_file()]
            found = [(p.relative_to(given).as_posix(), str(p), p.stat().st_size) for p in paths]
        else:
            raise PelError(f"{given}: no such file", kinds)
        if [name for name, *_ in found] == [given]:
            yield DocumentFile(*found[0], of_file(given))
            return
        is_empty = True
        names = {name.removesuffix(".gz") for name, *_ in found}
        for name, url, size in found:
            plain = name.removesuffix(".gz")
            if plain.endswith(".txt") and f"{plain.removesuffix('.txt')}{ANNOTATIONS}" in names:
                continue  # read with its annotations
            try:
                format = of_file(name)
            except PelError:
                continue
            if not any(part.startswith(".") for part in name.split("/")):
                if format.name == "text":
                    format = format._replace(input=WHOLE_TEXT)
                yield DocumentFile(name, url, size, format)
                is_empty = False
        if is_empty:
            raise PelError(f"{given}: no file in it that can be read", kinds)

    all_given = [given] if isinstance(given, (str, Path)) else given
    return DocumentStream(file for each in all_given for file in files(str(each)))
