"""JSONL: an object a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..errors import PelError
from ..spans import ids_in
from ..system.json_lines import json_object
from .document import Document, Mention, mention_at
from .format import Input, TextOutput, decoded
from .linked import linked_document
from .prodigy import accepted_lines, document_of_prodigy

if TYPE_CHECKING:
    from spacy.tokens import Doc


_REMEDY = "correct the document"


def document_of(record: dict[str, Any]) -> Document:
    """The document of a JSON object; one with "spans" and no "mentions" is a task of Prodigy.

    Raises:
        PelError: If a key is missing, of the wrong type, or a mention is not in the text.
    """
    if "spans" in record and "mentions" not in record:
        return document_of_prodigy(record)
    text, id, mentions = record.get("text"), record.get("id"), record.get("mentions")
    if not isinstance(text, str):
        raise PelError("'text' is missing or not a string", _REMEDY)
    if not isinstance(id, (str, int, type(None))):
        raise PelError("'id' is not a string or an integer", _REMEDY)
    if "mentions" not in record:
        return Document(text, id)
    if not isinstance(mentions, list):
        raise PelError("'mentions' is not a list", _REMEDY)
    return Document(text, id, tuple(_mention(text, mention) for mention in mentions))


def _mention(text: str, mention: Any) -> Mention:
    if not isinstance(mention, dict):
        raise PelError(f"the mention {mention!r} is not an object", _REMEDY)
    start, end, label = mention.get("start"), mention.get("end"), mention.get("label", "")
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(label, str)):
        raise PelError(f"the mention {mention!r} lacks an integer 'start' or 'end'", _REMEDY)
    id = mention.get("id")
    if not isinstance(id, (str, int, type(None))):
        raise PelError(
            f"'id' of the mention {mention!r} is not a string", 'join several ids with "|"'
        )
    return mention_at(text, start, end, label, () if id is None else ids_in(str(id)))


def _document(line: bytes, spans_key: str | None) -> Document:
    return document_of(json_object(decoded(line)))


def _line(number: int, doc: Doc, spans_key: str | None) -> str:
    return json.dumps(linked_document(doc, spans_key), ensure_ascii=False) + "\n"


INPUT = Input(accepted_lines, _document, has_ids=True)
OUTPUT = TextOutput(_line)
