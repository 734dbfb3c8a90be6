"""A stream of documents, from whatever they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import PelError
from .docs import make_doc
from .document import Document
from .format import MOST_MENTIONS, Fault, Format, Input, LineError, Place, place_text

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


class RawDocument(NamedTuple):
    """A document of an input that is not checked yet.

    Attributes:
        name: The file that it is from, for messages; "" if the data says it.
        place: Where in the file it begins.
        data: What it is made of; see ``Input.split``.
        format: The format of the data.
    """

    name: str
    place: Place
    data: Any
    format: Format

    @property
    def where(self) -> str:
        """File and place, for messages."""
        return self._at(self.place)

    @property
    def packed(self) -> bytes:
        """The data as bytes, and what format they are of."""
        data = (
            self.data
            if isinstance(self.data, bytes)
            else json.dumps(self.data, default=str).encode()
        )
        return f"{self.format.name} {len(data)} ".encode() + data

    def document(self, spans_key: str | None = None) -> Document:
        """The document.

        Args:
            spans_key: See ``Input.document``.

        Raises:
            PelError: In one line, if it cannot be read.
        """
        try:
            return self._read(self._input(), spans_key)
        except ValueError as error:
            raise self._placed(error) from error

    def doc(self, nlp: Language, spans_key: str | None) -> Doc:
        """The Doc of the document, to be linked; see ``make_doc``.

        Raises:
            PelError: In one line, if it cannot be read.
        """
        try:
            read = self._input()
            if read.doc:
                return read.doc(nlp, self.data)
            return make_doc(nlp, self._read(read, spans_key), spans_key)
        except ValueError as error:
            raise self._placed(error) from error

    def _input(self) -> Input:
        """How the data is read; PelError if it is a fault."""
        if isinstance(self.data, Fault):
            raise PelError(*self.data)
        assert self.format.input is not None
        return self.format.input

    def _read(self, read: Input, spans_key: str | None) -> Document:
        document = read.document(self.data, spans_key)
        if len(document.mentions or ()) > MOST_MENTIONS:
            raise PelError(f"more than {MOST_MENTIONS:,} mentions in a document", "split it")
        return document

    def _placed(self, error: ValueError) -> PelError:
        """The error, with file and place before it."""
        if isinstance(error, LineError):
            assert isinstance(self.place, int)
            return error.at(self._at(self.place + error.line))
        if isinstance(error, PelError):
            return error.at(self.where) if self.where else error
        return PelError(f"{self.where}: {error}", "correct the document")

    def _at(self, place: Place) -> str:
        return ", ".join(filter(None, (self.name, place_text(place))))


class DocumentStream:
    """Documents of one or more sources, for example files. It can be read again and again.

    Attributes:
        total: The bytes of the input; None if that is not known.
        position: The bytes that have been read.
    """

    total: int | None = None
    position: int = 0

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
        """The bytes that have been read."""
        return self._before + (self._current.position if self._current else 0)

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        """See ``DocumentStream``."""
        self._before, self._current = 0, None
        for stream in self.streams:
            self._before, self._current = self.position, stream
            yield from stream.documents_by_source()


def checked_documents(documents: Iterable[Document], format_name: str) -> Iterator[RawDocument]:
    """Documents that have been read and checked, as those of a stream.

    Args:
        documents: The documents. A PelError of theirs, which names the place, becomes a Fault.
        format_name: How a format of these documents would be named.
    """
    format = Format(format_name, (), Input(_nothing, _as_it_is, has_ids=True))
    try:
        for document in documents:
            yield RawDocument("", f"document {document.id}", document, format)
    except PelError as error:
        yield RawDocument("", "", Fault(error.problem, error.remedy), format)


def _nothing(file: object, name: str) -> Iterator[tuple[Place, Any]]:
    return iter(())


def _as_it_is(document: Document, spans_key: str | None) -> Document:
    return document
