"""PubTator: a title and an abstract, and a line a mention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from spacy.language import Language
from spacy.tokens import Doc

from ..corpora.annotated import AnnotatedDocument, AnnotatedMention
from ..corpora.pubtator import documents_of, pubtator_text
from .document import Document, Mention, Passage, make_doc, passages_of
from .format import LONGEST, Input, TextOutput, decoded, document_id, numbered_lines
from .linked import entity_id, linked_mentions

_TITLE = re.compile(rb"([^\t|]+)\|t\|")


def _blocks(file: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    """The lines of each document: a blank line ends it, and so does the next one's title line."""
    first, size, block = 0, 0, []
    for number, line in numbered_lines(file):
        title = _TITLE.match(line)
        if block and (not line.strip() or (title and not block[0].startswith(title[1] + b"|"))):
            yield f"line {first}", b"".join(block)
            size, block = 0, []
        if line.strip():
            first = first if block else number
            size += len(line)
            block.append(line)
        if size > LONGEST:
            raise ValueError(f"line {first}: a document of more than {LONGEST:,} bytes")
    if block:
        yield f"line {first}", b"".join(block)


def _doc(nlp: Language, block: bytes, spans_key: str | None) -> Doc:
    lines = decoded(block).removesuffix("\n").split("\n")
    located = (
        (f"line {number} of the document", line.rstrip("\r"))
        for number, line in enumerate(lines, 1)
    )
    (document,) = documents_of(located)
    mentions = [Mention(start, end, type) for start, end, _, type, _ in document.mentions]
    plain = Document(document.text, document.id, mentions or None, _passages(document))
    return make_doc(nlp, plain, spans_key)


def _passages(document: AnnotatedDocument) -> list[Passage]:
    length, end = len(document.title), len(document.text)
    if not document.title or length == end:
        return [Passage(0, end, {"type": "title" if document.title else "abstract"})]
    return [Passage(0, length, {"type": "title"}), Passage(length + 1, end, {"type": "abstract"})]


def _text(number: int, doc: Doc, spans_key: str | None) -> str:
    mentions = tuple(
        AnnotatedMention(
            mention["start"],
            mention["end"],
            mention["text"],
            _field(mention["label"]),
            tuple(filter(None, [entity_id(mention)])),
        )
        for mention in linked_mentions(doc, spans_key)
    )
    id = _field(document_id(number, doc)).replace("|", "_")
    return pubtator_text(AnnotatedDocument(id, doc.text, mentions, _title(doc)))


def _title(doc: Doc) -> str:
    """The first passage, where what follows it is parted from it by one character, as here."""
    first, *others = passages_of(doc)
    if first.start == 0 and others and others[0].start == first.end + 1:
        return doc.text[: first.end]
    return ""


def _field(text: str) -> str:
    return " ".join(text.split()) or "_"


INPUT = Input(_blocks, _doc)
OUTPUT = TextOutput(_text)
