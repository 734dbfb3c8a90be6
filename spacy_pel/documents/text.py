"""Plain text: a document a line; or, in a folder of files, a document a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, BinaryIO

from spacy.language import Language
from spacy.tokens import Doc

from .document import Document, make_doc
from .format import LONGEST, Fault, Input, decoded, numbered_lines


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    for number, line in numbered_lines(file):
        if line.strip():
            yield f"line {number}", line.rstrip(b"\r\n")


def _doc(nlp: Language, line: bytes, spans_key: str | None) -> Doc:
    return make_doc(nlp, Document(decoded(line)), spans_key)


def _whole(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        yield "", Fault(f"longer than {LONGEST:,} bytes", "split it")
    else:
        yield "", [name, data.removeprefix(b"\xef\xbb\xbf").decode("utf8", "surrogateescape")]


def _whole_doc(nlp: Language, data: list[str], spans_key: str | None) -> Doc:
    name, text = data
    text = decoded(text.encode("utf8", "surrogateescape"))
    id = PurePath(name.removesuffix(".gz")).with_suffix("").as_posix()
    return make_doc(nlp, Document(text, id), spans_key)


LINES = Input(_lines, _doc)
# The id of the document is the name of the file, without its suffix.
WHOLE_FILE = Input(_whole, _whole_doc)
