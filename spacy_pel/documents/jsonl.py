"""JSONL: an object a line."""

from __future__ import annotations

import json
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from ..system.json_lines import json_object
from .document import Document, Mention, make_doc
from .format import Input, TextOutput, decoded
from .linked import linked_document
from .text import LINES


def document_of(nlp: Language, record: dict[str, Any], spans_key: str | None) -> Doc:
    """The Doc of a JSON object; ValueError, in one line, says what is wrong with it."""
    return make_doc(nlp, _document(record), spans_key)


def _doc(nlp: Language, line: bytes, spans_key: str | None) -> Doc:
    return document_of(nlp, json_object(decoded(line)), spans_key)


def _document(record: dict[str, Any]) -> Document:
    text, id, mentions = record.get("text"), record.get("id"), record.get("mentions")
    if not isinstance(text, str):
        raise ValueError("'text' is missing or not a string")
    if not isinstance(id, (str, int, type(None))):
        raise ValueError("'id' is not a string or an integer")
    if "mentions" not in record:
        return Document(text, id)
    if not isinstance(mentions, list):
        raise ValueError("'mentions' is not a list")
    return Document(text, id, [_mention(mention) for mention in mentions])


def _mention(mention: Any) -> Mention:
    if not isinstance(mention, dict):
        raise ValueError(f"the mention {mention!r} is not an object")
    start, end, label = mention.get("start"), mention.get("end"), mention.get("label", "")
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(label, str)):
        raise ValueError(f"the mention {mention!r} lacks an integer 'start' or 'end'")
    return Mention(start, end, label)


def _line(number: int, doc: Doc, spans_key: str | None) -> str:
    return json.dumps(linked_document(doc, spans_key), ensure_ascii=False) + "\n"


INPUT = Input(LINES.split, _doc)
OUTPUT = TextOutput(_line)
