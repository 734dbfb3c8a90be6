"""The list of file formats, and plain text. To add one, write a module in this folder and a line here."""

from collections.abc import Iterator
from pathlib import PurePath

from ...errors import PelError
from ..document import Document
from . import bioc, docbin, fhir, json_formats, omop, pubtator, tables
from .base import (
    BoundedFile,
    Format,
    Input,
    checked_text,
    decoded,
    filled_lines,
    unchecked_text,
)


# No lambdas, because documents and their formats are pickled for other processes.
def _line_document(line: bytes) -> Document:
    return Document(decoded(line))


def _whole(file: BoundedFile) -> Iterator[tuple[str, list[str]]]:
    yield "", [file.name, unchecked_text(file.read())]


def _whole_document(data: list[str]) -> Document:
    name, text = data
    id = PurePath(name.removesuffix(".gz")).with_suffix("").as_posix()
    return Document(checked_text(text), id)


# Each line is a document, or each file, as in a folder, with the name of the file as its id.
_LINES = Format("text", (".txt",), Input(filled_lines, _line_document, has_ids=False))
WHOLE_TEXT = Format("whole-text", (), Input(_whole, _whole_document, has_ids=False))

FORMATS = (
    _LINES,
    WHOLE_TEXT,
    *json_formats.FORMATS,
    *tables.FORMATS,
    pubtator.FORMAT,
    *bioc.FORMATS,
    docbin.FORMAT,
    omop.FORMAT,
    fhir.FORMAT,
)


def format_of(name: str) -> Format | None:
    """Return the format with the longest suffix that a file name has, or None."""
    pairs = [(suffix, format) for format in FORMATS for suffix in format.suffixes]
    fitting = [pair for pair in pairs if name.lower().endswith(pair[0])]
    return max(fitting, key=lambda pair: len(pair[0]))[1] if fitting else None


def format_named(name: str) -> Format:
    """Return the format with this name, or raise a PelError."""
    by_name = {format.name: format for format in FORMATS}
    if name not in by_name:
        raise PelError(f'unknown format "{name}"', f"choose one of: {', '.join(by_name)}")
    return by_name[name]


def suffixes(direction: str, *, with_ids: bool = False) -> str:
    """Return the suffixes of formats for messages.

    Args:
        direction: "input" or "output": formats that can be read, or written.
        with_ids: Whether to include only formats that are read with entity ids.
    """
    known = [format for format in FORMATS if getattr(format, direction)]
    known = [f for f in known if not with_ids or (f.input and f.input.has_ids)]
    return ", ".join(suffix for format in known for suffix in format.suffixes)
