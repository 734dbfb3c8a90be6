"""The interface of file formats, which read or write documents, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shutil import copyfileobj
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from ...errors import PelError
from ..document import Document

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

MAX_DOCUMENT_BYTES = 64 * 2**20  # between the ends of two documents
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Where a document begins in its file: the number of its line, or words such as "document 3".
Place = int | str
NumberedDocs = Iterable[tuple[int, "Doc"]]  # linked docs with their numbers in the input


class LineError(PelError):
    """An error in a line of a document, whose first line is 0."""

    def __init__(self, line: int, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.line = line


class BoundedFile:
    """A file that raises PelError if a document has more than MAX_DOCUMENT_BYTES.

    The reader of documents sets ``size`` to 0 at the end of each. A byte order mark is skipped.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file, self.name = file, name  # the name is for messages
        self.size = 0  # bytes read since the end of the last document
        self._is_new = True

    def read(self, n: int = -1) -> bytes:
        """Return the next ``size`` bytes, or all."""
        return self._counted(
            self.file.read(min(n, MAX_DOCUMENT_BYTES + 1) if n >= 0 else MAX_DOCUMENT_BYTES + 1)
        )

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines with their ends."""
        return iter(lambda: self._counted(self.file.readline(MAX_DOCUMENT_BYTES + 1)), b"")

    def _counted(self, data: bytes) -> bytes:
        self.size += len(data)
        if self.size > MAX_DOCUMENT_BYTES:
            problem = f"no end of a document in {MAX_DOCUMENT_BYTES:,} bytes"
            raise PelError(
                f"{problem}, and the rest of the file is not read", "split it, or correct it"
            )
        if self._is_new and data:
            self._is_new = False
            return data.removeprefix(_BYTE_ORDER_MARK)
        return data


class Input(NamedTuple):
    """The reader of a format: either ``document`` or ``doc`` is set."""

    # Yields the place and the data of each document in an open file, as a stream. The data is bytes or
    # plain data that is not checked yet, so that documents can be skipped quickly. If it is a PelError,
    # the document cannot be read; if one is raised, the rest of the file cannot be read.
    split: Callable[[BoundedFile], Iterator[tuple[Place, Any]]]
    # Makes the document from the data. It raises a ValueError with a message of one line.
    document: Callable[[Any], Document] | None
    has_ids: bool  # whether mentions have entity ids, which training needs
    # Makes the Doc from a pipeline (None: any vocabulary) and the data, for a format of Docs.
    doc: Callable[[Language | None, Any], Doc] | None = None


class Output(Protocol):
    """The writer of a format, which writes parts and joins them at the end."""

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        """Write linked docs to a file."""

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """Join parts to one file, in order. The same parts give the same bytes."""


class Format(NamedTuple):
    """A file format."""

    name: str
    suffixes: tuple[str, ...]  # of file names, in lower case
    input: Input | None = None  # None: it is only written
    output: Output | None = None  # None: it is only read
    # Returns the output of a table with a column for each of these vocabularies and attributes.
    wider: Callable[[Sequence[str], Sequence[str]], Output] | None = None

    @property
    def reader(self) -> Input:
        """The input; PelError if the format is only written."""
        if self.input is None:
            problem = f"{self.name} is an output format only"
            raise PelError(problem, "choose a format that can be read")
        return self.input

    def output_with(
        self, vocabularies: Sequence[str], attributes: Sequence[str] = ()
    ) -> Output | None:
        """Return the output for mentions with codes in these vocabularies and with these attributes.

        Raises:
            PelError: Two columns of a table would have the same name.
        """
        if self.wider and (vocabularies or attributes):
            return self.wider(vocabularies, attributes)
        return self.output


class DocumentFile(NamedTuple):
    """A file of documents."""

    name: str  # for messages
    path: Path | None  # None: standard input
    size: int | None  # in bytes; None if it is not known
    format: Format


class TextOutput(NamedTuple):
    """An ``Output`` as text, one document after the other."""

    text: Callable[[int, Doc, str | None], str]  # of a doc, from its number, itself and a spans key
    head: str = ""  # before all documents
    tail: str = ""  # after all documents

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        with path.open("wb") as file:
            for number, doc in docs:
                file.write(encoded(self.text(number, doc, spans_key)))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        with path.open("wb") as file:
            file.write(encoded(self.head))
            for part in parts:
                with part.open("rb") as source:
                    copyfileobj(source, file)
            file.write(encoded(self.tail))


def filled_lines(file: BoundedFile) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text of each line that is not blank, without the line end."""
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def place_text(place: Place) -> str:
    """Describe a place: "line 3", "document 2"."""
    return f"line {place}" if isinstance(place, int) else place


def document_id(number: int, doc: Doc) -> str:
    """Return the id of a document, or its number in the input if it has none."""
    return str(doc.user_data.get("id", number))


def encoded(text: str) -> bytes:
    """Encode a text in UTF-8, with question marks in place of lone surrogates, which are no characters."""
    return text.encode("utf8", errors="replace")


def decoded(data: bytes) -> str:
    """Decode UTF-8; PelError if the bytes are not UTF-8."""
    try:
        return data.decode("utf8")
    except UnicodeDecodeError as error:
        raise PelError("not UTF-8", "convert it to UTF-8") from error


def unchecked_text(data: bytes) -> str:
    """Decode UTF-8, with surrogates in place of invalid bytes, which ``checked_text`` rejects later."""
    return data.decode("utf8", "surrogateescape")


def checked_text(text: str) -> str:
    """Return the text of ``unchecked_text``; PelError if its bytes were not UTF-8."""
    return decoded(text.encode("utf8", "surrogateescape"))
