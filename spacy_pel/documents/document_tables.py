"""CSV and TSV: read with one document a row, written with one mention a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import PelError
from .document import Document
from .format import (
    LONGEST,
    REST_LOST,
    Fault,
    Format,
    Input,
    TextOutput,
    byte_lines,
    decoded,
    document_id,
)
from .linked import linked_mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

COLUMNS = (
    *("document", "start", "end", "text", "label"),
    *("id", "name", "score", "probability", "types"),
)


def _rows(delimiter: str, file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(LONGEST)  # of 131,072, which a document may well exceed
    lines = _Lines(file)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header = _header(reader)
    places = {key: header.index(key) for key in ("text", "id") if key in header}
    while True:
        first = reader.line_num + 1
        lines.size = 0
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield first, Fault(str(error))
            continue
        if row is None:
            return
        if len(row) not in (0, len(header)):
            fault = f"{len(row)} fields where the first line names {len(header)} columns"
            yield first, Fault(fault)
        elif row:
            yield first, {key: row[place] for key, place in places.items()}


class _Lines:
    """The lines of a file as texts, for csv; those that are not UTF-8 are to be refused later.

    Attributes:
        size: The bytes of the row that is read. A row may have many lines, as cells may.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.size = 0
        self._lines = byte_lines(file)

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            self.size += len(line)
            if self.size > LONGEST:
                raise PelError(
                    f"line {number}: a row of more than {LONGEST:,} bytes{REST_LOST}",
                    "correct its quotes, or split it",
                )
            yield line.decode("utf8", "surrogateescape")


def _header(reader: Any) -> list[str]:
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise PelError(f"line 1: {error}", "correct it") from error
    if "text" not in header:
        raise PelError(
            f"no column 'text' in line 1, which names: {', '.join(header) or 'none'}",
            "name the column that holds the documents 'text', and that of their ids, if any, 'id'",
        )
    return header


def _document(row: dict[str, str], spans_key: str | None) -> Document:
    cells = {key: decoded(cell.encode("utf8", "surrogateescape")) for key, cell in row.items()}
    return Document(cells["text"], cells.get("id"))


def _lines(
    delimiter: str, vocabularies: Sequence[str], number: int, doc: Doc, spans_key: str | None
) -> str:
    id = document_id(number, doc)
    rows = (_row(id, mention, vocabularies) for mention in linked_mentions(doc, spans_key))
    return _text(delimiter, rows)


def _row(id: str, mention: dict[str, Any], vocabularies: Sequence[str]) -> list[Any]:
    """The cells of a mention. Several types, or codes in one vocabulary, are joined by bars."""
    values = {"document": id, **mention, "types": "|".join(mention["types"])}
    codes = mention.get("xrefs", {})
    return [*(values[c] for c in COLUMNS), *("|".join(codes.get(v, ())) for v in vocabularies)]


def _text(delimiter: str, rows: Any) -> str:
    return "".join(_line(delimiter, row) for row in rows)


def _line(delimiter: str, row: Any) -> str:
    file = io.StringIO(newline="")
    # Python before 3.13 quotes a "\r" in a cell only if lines end in one; unquoted it ends a line.
    csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerow(row)
    return file.getvalue().removesuffix("\r\n") + "\n"


def _output(delimiter: str, vocabularies: Sequence[str]) -> TextOutput:
    head = _text(delimiter, [[*COLUMNS, *vocabularies]])
    return TextOutput(partial(_lines, delimiter, vocabularies), head)


def _table(name: str, delimiter: str) -> Format:
    rows = Input(partial(_rows, delimiter), _document, has_ids=False)
    coded = partial(_output, delimiter)
    return Format(name, (f".{name}",), rows, coded(()), coded)


CSV, TSV = _table("csv", ","), _table("tsv", "\t")
