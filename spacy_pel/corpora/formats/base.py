"""What a file format gives: a way to read documents, or to write them, or both."""

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

MAX_DOCUMENT_BYTES = 64 * 2**20  # bytes between the ends of two documents
MAX_MENTIONS = 100_000  # of a document: one every ten characters, at the length that spaCy reads
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Where a document begins in its file: the number of its line, or words such as "document 3".
Place = int | str
NumberedDocs = Iterable[tuple[int, "Doc"]]  # linked docs with their numbers in the input


class LineError(PelError):
    """An error in a line of a document, numbered from 0 for its first."""

    def __init__(self, line: int, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.line = line


class BoundedFile:
    """A file of which MAX_DOCUMENT_BYTES bytes are read at most before ``size`` is set to 0 again.

    A byte order mark at its start is passed over. It has a name, for messages.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file, self.name = file, name
        self.size = 0  # bytes that were read
        self._is_new = True

    def read(self, n: int = -1) -> bytes:
        """The next bytes, or all; PelError if there are too many."""
        return self._counted(
            self.file.read(min(n, MAX_DOCUMENT_BYTES + 1) if n >= 0 else MAX_DOCUMENT_BYTES + 1)
        )

    def __iter__(self) -> Iterator[bytes]:
        """The lines with their ends; PelError if there are too many bytes."""
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
    """How a format is read."""

    # Gives pairs of place and data of an open file, one a document, as a stream. The data is bytes or
    # plain data that is not checked yet, so that documents can be passed over quickly. A PelError is a
    # document that cannot be read. One that is raised means that the rest of the file cannot be read.
    split: Callable[[BoundedFile], Iterator[tuple[Place, Any]]]
    # Makes the document from the data. A ValueError, in one line, says what is wrong.
    document: Callable[[Any], Document] | None
    has_ids: bool  # whether mentions have entity ids, so that it can be trained on
    # Of a format that holds Docs, and needs no ``document``: makes a Doc from a pipeline (None: any
    # vocabulary) and the data.
    doc: Callable[[Language | None, Any], Doc] | None = None


class Output(Protocol):
    """How a format is written: in parts, which are joined at the end."""

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        """Write linked docs to a file of their own."""

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """Make one file of all parts, in their order; the same parts give the same bytes."""


class Format(NamedTuple):
    """A file format."""

    name: str  # that users write
    suffixes: tuple[str, ...]  # of the names of its files, in lower case
    input: Input | None = None  # None: it is only written
    output: Output | None = None  # None: it is only read
    # Of a table: gives the output with a column for each of these vocabularies and attributes.
    wider: Callable[[Sequence[str], Sequence[str]], Output] | None = None

    def output_with(
        self, vocabularies: Sequence[str], attributes: Sequence[str] = ()
    ) -> Output | None:
        """How it is written where mentions have codes in these vocabularies, and these attributes.

        PelError if two columns of a table would have the same name.
        """
        is_wider = self.wider and (vocabularies or attributes)
        return self.wider(vocabularies, attributes) if is_wider else self.output


class DocumentFile(NamedTuple):
    """A file of documents, or a split in it. Standard input has no URL."""

    name: str  # for messages
    url: str | None  # or its path
    size: int | None  # in bytes; None if that is not known
    format: Format


class TextOutput(NamedTuple):
    """Text, one document after the other; see ``Output``."""

    text: Callable[[int, Doc, str | None], str]  # of a doc with its number, and a spans key
    head: str = ""  # what stands before all documents
    tail: str = ""  # what stands after them

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        with open(path, "wb") as file:
            for number, doc in docs:
                file.write(encoded(self.text(number, doc, spans_key)))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        with open(path, "wb") as file:
            file.write(encoded(self.head))
            for part in parts:
                with open(part, "rb") as source:
                    copyfileobj(source, file)
            file.write(encoded(self.tail))


def filled_lines(file: BoundedFile) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, without their ends, and their numbers."""
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def place_text(place: Place) -> str:
    """A place in words: "line 3", "document 2"."""
    return f"line {place}" if isinstance(place, int) else place


def document_id(number: int, doc: Doc) -> str:
    """The id of a document, or its number in the input if it has none."""
    return str(doc.user_data.get("id", number))


def encoded(text: str) -> bytes:
    """The text in UTF-8; a lone surrogate, which is no character, becomes a question mark."""
    return text.encode("utf8", errors="replace")


def decoded(data: bytes) -> str:
    """The text of UTF-8; PelError if it is none."""
    try:
        return data.decode("utf8")
    except UnicodeDecodeError as error:
        raise PelError("not UTF-8", "convert it to UTF-8") from error
