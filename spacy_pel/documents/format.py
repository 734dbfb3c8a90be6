"""What a file format gives: a way to read documents, or to write them, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from spacy.language import Language
from spacy.tokens import Doc

# A longer line, row or document is no document; without a bound, one could fill the memory.
LONGEST = 64 * 2**20


class Fault(NamedTuple):
    """What stands in the place of a document that cannot be read.

    Args:
        problem: what is wrong, in one line.
        remedy: what to do about it.
    """

    problem: str
    remedy: str = "correct the document"


class Input(NamedTuple):
    """How a format is read.

    split: from an open file and its name to pairs (place in the file, data of a document), as a
        stream. The data is bytes or plain data: not yet checked, so that documents are passed over
        quickly. A Fault is a document that cannot be read; ValueError means that the rest of the
        file cannot.
    doc: from a pipeline, the data and a spans key to the Doc, with its mentions, if any are given,
        in ``doc.spans[spans_key]``, or ``doc.ents`` if that is None. ValueError, in one line, says
        what is wrong with the document.
    """

    split: Callable[[BinaryIO, str], Iterator[tuple[str, Any]]]
    doc: Callable[[Language, Any, str | None], Doc]


class Output(Protocol):
    """How a format is written: in parts, which are joined at the end."""

    def write_part(
        self, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
    ) -> None:
        """Write linked docs, each with its number in the input, to a file of their own."""

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """Make one file of all parts, in their order; the same parts give the same bytes."""


class Format(NamedTuple):
    """A file format. suffixes: how names of such files end. input, output: None if it has none."""

    name: str
    suffixes: tuple[str, ...]
    input: Input | None = None
    output: Output | None = None


class TextOutput(NamedTuple):
    """Text, a document after the other. text: what is written of a doc with this number."""

    text: Callable[[int, Doc, str | None], str]
    head: str = ""
    tail: str = ""

    def write_part(
        self, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
    ) -> None:
        with open(path, "wb") as file:
            for number, doc in docs:
                file.write(encoded(self.text(number, doc, spans_key)))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        from shutil import copyfileobj

        with open(path, "wb") as file:
            file.write(encoded(self.head))
            for part in parts:
                with open(part, "rb") as source:
                    copyfileobj(source, file)
            file.write(encoded(self.tail))


def encoded(text: str) -> bytes:
    """The text in UTF-8; of a lone surrogate, which is no character, a question mark."""
    return text.encode("utf8", errors="replace")


def document_id(number: int, doc: Doc) -> str:
    """The id of a document, or its number in the input where it has none."""
    return str(doc.user_data.get("id", number))


def numbered_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, from 1, and their line feeds.

    Raises ValueError for one that is longer than LONGEST.
    """
    number = 0
    while line := file.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise ValueError(f"line {number}: longer than {LONGEST:,} bytes; correct it")
        yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def decoded(data: bytes) -> str:
    """Text in UTF-8; ValueError, in one line, if it is not."""
    try:
        return data.decode("utf8")
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8; convert it to UTF-8") from error
