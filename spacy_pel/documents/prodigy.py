"""Prodigy's JSONL: a task a line, whose ``spans`` are the mentions of its ``text``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import PelError
from ..spans import ids_in
from ..system.json_lines import json_object
from .document import Document, Mention, mention_at
from .format import Input, TextOutput, decoded
from .linked import linked_document
from .text import filled_lines

if TYPE_CHECKING:
    from spacy.tokens import Doc

_REMEDY = "correct the task"
_NOT_ACCEPTED = ("reject", "ignore")


def accepted_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """The filled lines of a JSONL file, without the tasks that Prodigy's users did not accept."""
    for number, line in filled_lines(file, name):
        if b'"answer"' not in line or _answer(line) not in _NOT_ACCEPTED:
            yield number, line


def _answer(line: bytes) -> Any:
    try:
        return json_object(decoded(line)).get("answer")
    except ValueError:  # it is reported when the document is made
        return None


def document_of_prodigy(task: dict[str, Any]) -> Document:
    """The document of a task; PelError if it is none."""
    text, spans = task.get("text"), task.get("spans")
    if not isinstance(text, str):
        raise PelError("'text' is missing or not a string", _REMEDY)
    if spans is None:
        return Document(text, _id_of(task))
    if not isinstance(spans, list):
        raise PelError("'spans' is not a list", _REMEDY)
    chosen = _chosen(task) if len(spans) == 1 else ()
    return Document(text, _id_of(task), tuple(_mention(text, span, chosen) for span in spans))


def _id_of(task: dict[str, Any]) -> str | int | None:
    meta = task.get("meta")
    id = task.get("id", meta.get("id") if isinstance(meta, dict) else None)
    return id if isinstance(id, (str, int)) else None


def _chosen(task: dict[str, Any]) -> tuple[str, ...]:
    """The ids of the options that were chosen, which are those of the only span."""
    accepted = task.get("accept")
    return tuple(map(str, accepted)) if isinstance(accepted, list) else ()


def _mention(text: str, span: Any, chosen: tuple[str, ...]) -> Mention:
    start, end = (span.get(key) if isinstance(span, dict) else None for key in ("start", "end"))
    if not (isinstance(start, int) and isinstance(end, int)):
        raise PelError(f"the span {span!r} lacks an integer 'start' or 'end'", _REMEDY)
    ids = ids_in(str(span.get("kb_id") or "")) or chosen
    return mention_at(text, start, end, str(span.get("label") or ""), ids)


def _document(line: bytes, spans_key: str | None) -> Document:
    return document_of_prodigy(json_object(decoded(line)))


def _line(number: int, doc: Doc, spans_key: str | None) -> str:
    document = linked_document(doc, spans_key)
    spans = [_span(mention) for mention in document["mentions"]]
    meta = {"meta": {"id": document["id"]}} if "id" in document else {}
    return json.dumps({"text": document["text"], **meta, "spans": spans}, ensure_ascii=False) + "\n"


def _span(mention: dict[str, Any]) -> dict[str, Any]:
    return {
        **{key: mention[key] for key in ("start", "end", "text", "label")},
        "kb_id": mention["id"],
        **{key: mention[key] for key in ("name", "score", "probability")},
    }


INPUT = Input(accepted_lines, _document, has_ids=True)
OUTPUT = TextOutput(_line)
