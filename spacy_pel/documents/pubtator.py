"""PubTator: a title and an abstract, and a line a mention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import PelError
from .curated_ids import curated_ids
from .docs import passages_of
from .document import OFFSETS, Document, Mention, Passage, mention_at
from .format import (
    LONGEST,
    MOST_MENTIONS,
    Fault,
    Input,
    LineError,
    TextOutput,
    byte_lines,
    decoded,
    document_id,
)
from .linked import entity_id, linked_mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc


_TITLE = re.compile(rb"([^\t|]+)\|t\|")
_PASSAGE = re.compile(r"([^\t|]+)\|([ta])\|(.*)")
_RELATION_NAME = re.compile(r"[A-Za-z_]+")
_MOST_LINES = 1_000_000  # of one document: mentions and relations
_SHOWN = 60  # characters of the user's text quoted in an error
_COLUMNS = "a mention has PMID, start, end, text, type and id (-1 for none) with tabs between"


def _blocks(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """The lines of each document: a blank line ends it, and so does the next one's title line.

    One of too many lines or bytes is a Fault; its lines are not kept.
    """
    first, n_lines, size, block = 0, 0, 0, []
    for number, line in byte_lines(file):
        title = _TITLE.match(line)
        if block and (not line.strip() or (title and not block[0].startswith(title[1] + b"|"))):
            yield first, _whole_block(block, n_lines, size)
            n_lines, size, block = 0, 0, []
        if line.strip():
            first = first if block else number
            n_lines, size = n_lines + 1, size + len(line)
            if n_lines <= _MOST_LINES and size <= LONGEST:
                block.append(line)
    if block:
        yield first, _whole_block(block, n_lines, size)


def _whole_block(block: list[bytes], n_lines: int, size: int) -> bytes | Fault:
    """The lines that were kept as one; a Fault if there were more of them."""
    if n_lines > _MOST_LINES:
        return Fault(f"a document of more than {_MOST_LINES:,} lines", "split it")
    if size > LONGEST:
        return Fault(f"a document of more than {LONGEST:,} bytes", "split it")
    return b"".join(block)


def _document(block: bytes, spans_key: str | None) -> Document:
    """The document of these lines. The first line has its title or abstract."""
    lines = _lines(block)
    first = _PASSAGE.fullmatch(lines[0])
    if first is None:
        raise LineError(
            0,
            f"mention before its document, or not PubTator: {lines[0][:_SHOWN]!r}",
            "put the 'PMID|t|title' line first, with no blank line before its mentions",
        )
    draft = _Draft(first[1])
    for number, line in enumerate(lines):
        draft.add(number, line)
    return draft.document()


def _lines(block: bytes) -> list[str]:
    lines = []
    for number, line in enumerate(block.removesuffix(b"\n").split(b"\n")):
        try:
            lines.append(decoded(line).rstrip("\r"))
        except PelError as error:
            raise LineError(number, error.problem, error.remedy) from error
    return lines


class _Draft:
    """A document whose lines are still being read."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._passages: dict[str, str] = {}
        self._rows: list[tuple[int, list[str]]] = []

    def add(self, number: int, line: str) -> None:
        """Takes a line; relation lines are passed over."""
        row = line.split("\t")
        if passage := _PASSAGE.fullmatch(line):
            self._add_passage(number, *passage.groups())
            return
        if len(row) >= 4:
            self._check_id(number, row[0])
        if len(row) >= 6:
            if len(self._rows) == MOST_MENTIONS:
                raise LineError(
                    number, f"more than {MOST_MENTIONS:,} mentions in a document", "split it"
                )
            self._rows.append((number, row))
        elif len(row) < 4 or not _RELATION_NAME.fullmatch(row[1]):
            problem = f"malformed line of {len(row)} columns: {line[:_SHOWN]!r}"
            raise LineError(number, problem, _COLUMNS)

    def document(self) -> Document:
        """The document. Without an abstract line it is the title alone, and the other way round."""
        text = " ".join(self._passages[kind] for kind in "ta" if kind in self._passages)
        mentions = tuple(_mention(number, row, text) for number, row in self._rows)
        return Document(text, self.id, mentions or None, self._parts(len(text)))

    def _parts(self, end: int) -> tuple[Passage, ...]:
        length = len(self._passages.get("t", ""))
        if not length or length == end:
            return (Passage(0, end, {"type": "title" if length else "abstract"}),)
        title = Passage(0, length, {"type": "title"})
        return title, Passage(length + 1, end, {"type": "abstract"})

    def _add_passage(self, number: int, id: str, kind: str, text: str) -> None:
        self._check_id(number, id)
        if kind in self._passages:
            raise LineError(
                number,
                f"second |{kind}| line of document {id}",
                "remove it, or put a blank line between two documents",
            )
        self._passages[kind] = text

    def _check_id(self, number: int, id: str) -> None:
        if id != self.id:
            raise LineError(
                number,
                f"line of document {id[:_SHOWN]} inside document {self.id}",
                "move it to its own document, or put a blank line between the two",
            )


def _mention(number: int, row: list[str], text: str) -> Mention:
    start, end = _offset(number, row[1]), _offset(number, row[2])
    label = row[4].strip()
    if not label:
        raise LineError(number, "the mention has no type", "write one in the fifth column")
    remedy = f"{OFFSETS}, in title + ' ' + abstract"
    try:
        ids = curated_ids(row[5])
        return mention_at(text, start, end, label, ids, expected=row[3], remedy=remedy)
    except PelError as error:
        raise LineError(number, error.problem, error.remedy) from error


def _offset(number: int, field: str) -> int:
    try:
        return int(field)
    except ValueError:
        problem = f"malformed offset {field[:_SHOWN]!r}"
        raise LineError(number, problem, "columns 2 and 3 are whole numbers") from None


def pubtator_text(document: Document) -> str:
    """The document in PubTator format, with a blank line behind it.

    The title is the first passage, if one character parts it from a second one; else all of the
    text stands in the title line. Line ends within the text become blanks, so that offsets hold. A
    mention without ids gets "-1".
    """
    id, text, title = document.id, document.text, _title_line(document)
    lines = [f"{id}|t|{_one_line(title)}"]
    if len(title) < len(text):
        lines.append(f"{id}|a|{_one_line(text[len(title) + 1 :])}")
    lines += (
        f"{id}\t{start}\t{end}\t{_one_line(mention)}\t{label}\t{'|'.join(ids) or '-1'}"
        for start, end, mention, label, ids in document.mentions or ()
    )
    return "\n".join(lines) + "\n\n"


def _title_line(document: Document) -> str:
    first, second, *_ = *document.passages, None, None
    if first and second and first.start == 0 and second.start == first.end + 1:
        return document.text[: first.end]
    return document.text


def _one_line(text: str) -> str:
    return text.translate({ord(character): " " for character in "\r\n\t"})


def _text(number: int, doc: Doc, spans_key: str | None) -> str:
    mentions = tuple(
        Mention(
            mention["start"],
            mention["end"],
            mention["text"],
            _field(mention["label"]),
            tuple(filter(None, [entity_id(mention)])),
        )
        for mention in linked_mentions(doc, spans_key)
    )
    id = _field(document_id(number, doc)).replace("|", "_")
    return pubtator_text(Document(doc.text, id, mentions, passages_of(doc)))


def _field(text: str) -> str:
    return " ".join(text.split()) or "_"


INPUT = Input(_blocks, _document, has_ids=True)
OUTPUT = TextOutput(_text)
