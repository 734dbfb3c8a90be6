"""PubTator: a title and an abstract, and one line for each mention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from ...spans import ids_in
from ..doc_conversion import linked_mentions, passages_of
from ..document import (
    MAX_SHOWN,
    OFFSETS,
    Document,
    Mention,
    Passage,
    checked_mentions,
    curated_ids,
    mention_at,
)
from .base import BoundedFile, Format, Input, LineError, TextOutput, decoded, document_id

if TYPE_CHECKING:
    from spacy.tokens import Doc

_TITLE = re.compile(rb"([^\t|]+)\|t\|")
_PASSAGE = re.compile(r"([^\t|]+)\|([ta])\|(.*)")
_RELATION_NAME = re.compile(r"[A-Za-z_]+")
_COLUMNS = "write PMID, start, end, text, type and id (-1 for none), separated by tabs"


def _blocks(file: BoundedFile) -> Iterator[tuple[int, Any]]:
    """Yield the lines of each document, which ends at a blank line or the next title line."""
    first, block = 0, bytearray()  # a list of lines takes ten times the memory
    for number, line in enumerate(file, start=1):
        title = _TITLE.match(line)
        if block and (not line.strip() or (title and not block.startswith(title[1] + b"|"))):
            yield first, bytes(block)
            block = bytearray()
        if line.strip():
            first = first if block else number
            block += line
    if block:
        yield first, bytes(block)


def _document(block: bytes) -> Document:
    """Return the document of these lines. The first line is a title or an abstract."""
    number, id = 0, ""
    texts: dict[str, str] = {}
    rows: list[tuple[int, list[str]]] = []
    try:
        for number, line in enumerate(block.removesuffix(b"\n").split(b"\n")):
            text = decoded(line).rstrip("\r")
            passage, row = _PASSAGE.fullmatch(text), text.split("\t")
            id = id or (passage[1] if passage else "")
            if not id:
                problem = f"mention before its document, or not PubTator: {text[:MAX_SHOWN]!r}"
                remedy = "put the 'PMID|t|title' line first, with no blank line before its mentions"
                raise PelError(problem, remedy)
            of_line = passage[1] if passage else row[0] if len(row) > 3 else id
            if of_line != id:
                problem = f"line of document {of_line[:MAX_SHOWN]} inside document {id}"
                remedy = "move it to its own document, or put a blank line between the two"
                raise PelError(problem, remedy)
            if passage:
                if passage[2] in texts:
                    problem = f"second |{passage[2]}| line of document {id}"
                    raise PelError(problem, "remove it, or put a blank line between two documents")
                texts[passage[2]] = passage[3]
            elif len(row) >= 6:
                rows.append((number, row))
            elif len(row) < 4 or not _RELATION_NAME.fullmatch(row[1]):
                raise PelError(
                    f"malformed line of {len(row)} columns: {text[:MAX_SHOWN]!r}", _COLUMNS
                )
        whole = " ".join(texts[kind] for kind in "ta" if kind in texts)
    except PelError as error:
        raise LineError(number, error.problem, error.remedy) from error
    mentions, faults = checked_mentions(partial(_mention, whole), rows)
    cut, end = len(texts.get("t", "")), len(whole)
    passages = [Passage(0, cut, {"type": "title"})] if cut else []
    if cut < end or not cut:
        passages.append(Passage(cut and cut + 1, end, {"type": "abstract"}))
    return Document(whole, id, mentions if rows else None, tuple(passages), faults=faults)


def _mention(text: str, numbered: tuple[int, list[str]]) -> Mention:
    """Return the mention of a numbered line, or raise a LineError."""
    number, row = numbered
    try:
        return _mention_of_row(text, row)
    except PelError as error:
        raise LineError(number, error.problem, error.remedy) from None


def _mention_of_row(text: str, row: list[str]) -> Mention:
    _, *place, words, label, ids = row[:6]
    if not label.strip():
        raise PelError("the mention has no type", "write one in the fifth column")
    for field in place:
        if not re.fullmatch(r"\s*[-+]?\d+\s*", field):
            problem = f"malformed offset {field[:MAX_SHOWN]!r}"
            raise PelError(problem, "columns 2 and 3 are whole numbers")
    start, end = map(int, place)
    remedy = f"{OFFSETS}, in title + ' ' + abstract"
    return mention_at(
        text, start, end, label.strip(), curated_ids(ids), expected=words, remedy=remedy
    )


def pubtator_text(document: Document) -> str:
    """Return the document in PubTator format, with a blank line at its end.

    The title is the first passage if one character separates it from a second one, and otherwise the
    whole text. Line ends in the text become spaces, so that offsets stay the same.
    """
    id, text, title = document.id, document.text, document.text
    match document.passages:
        case [Passage(start=0, end=end), second, *_] if second.start == end + 1:
            title = text[:end]
    lines = [f"{id}|t|{_one_line(title)}"]
    if len(title) < len(text):
        lines.append(f"{id}|a|{_one_line(text[len(title) + 1 :])}")
    lines += (
        f"{id}\t{start}\t{end}\t{_one_line(mention)}\t{label}\t{'|'.join(ids) or '-1'}"
        for start, end, mention, label, ids in document.mentions or ()
    )
    return "\n".join(lines) + "\n\n"


def _one_line(text: str) -> str:
    return re.sub(r"[\r\n\t]", " ", text)


def _text(number: int, doc: Doc, spans_key: str | None) -> str:
    mentions = []
    for m in linked_mentions(doc, spans_key):
        label, ids = _field(m["label"]), ids_in(m["id"])
        mentions.append(Mention(m["start"], m["end"], m["text"], label, ids))
    id = _field(document_id(number, doc)).replace("|", "_")
    return pubtator_text(Document(doc.text, id, tuple(mentions), passages_of(doc)))


def _field(text: str) -> str:
    return " ".join(text.split()) or "_"


FORMAT = Format(
    "pubtator",
    (".pubtator", ".pubtator.txt", "_pubtator.txt"),
    Input(_blocks, _document, has_ids=True),
    TextOutput(_text),
)
