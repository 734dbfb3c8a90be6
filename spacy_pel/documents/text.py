"""Plain text: a document a line; or, in a folder of files, a document a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from .document import Document
from .format import BoundedFile, Format, Input, decoded


def filled_lines(file: BoundedFile, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, without their ends, and their numbers."""
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def _document(line: bytes, spans_key: str | None) -> Document:
    return Document(decoded(line))


def _whole(file: BoundedFile, name: str) -> Iterator[tuple[str, list[str]]]:
    yield "", [name, file.read().decode("utf8", "surrogateescape")]


def _whole_document(data: list[str], spans_key: str | None) -> Document:
    name, text = data
    text = decoded(text.encode("utf8", "surrogateescape"))
    return Document(text, PurePath(name.removesuffix(".gz")).with_suffix("").as_posix())


FORMAT = Format("text", (".txt",), Input(filled_lines, _document, has_ids=False))
# The id of the document is the name of the file, without its suffix.
WHOLE_FILE = Input(_whole, _whole_document, has_ids=False)
