"""A BioC document as plain data (from XML or JSON) made into a document.

The data is {"id", "infons", "passages", "annotations"}. A passage is {"infons", "texts",
"annotations"}, where texts are pairs of offset and text: its own, or those of its sentences. An
annotation is {"infons", "text", "locations"}, where locations are pairs of offset and length.
"""

from __future__ import annotations

from typing import Any

from ..errors import PelError
from .curated_ids import curated_ids
from .document import Document, Mention, Passage, mention_at
from .format import LONGEST


def document_of_parts(data: dict[str, Any], spans_key: str | None) -> Document:
    """The document of plain data; PelError if offsets are wrong, or a mention is not there."""
    text, passages = "", []
    for passage in data["passages"]:
        text, start = _with_texts(text, passage["texts"])
        passages.append(Passage(start, len(text), passage["infons"]))
    annotations = [a for part in (data, *data["passages"]) for a in part["annotations"]]
    mentions = tuple(_mention(text, annotation) for annotation in annotations)
    id = data["id"].strip() or None
    return Document(text, id, mentions or None, tuple(passages), data["infons"])


def _with_texts(before: str, texts: list[list[str]]) -> tuple[str, int]:
    """The text with these put at their offsets, blanks between, and where the first begins."""
    text, start = before, None
    for offset, more in texts:
        place = _integer(offset, "the offset of a passage")
        if not len(text) <= place <= LONGEST:
            raise PelError(
                f"a passage at {place}, where the text before it ends at {len(text)}",
                f"correct the offsets, which count characters up to {LONGEST:,}",
            )
        text += " " * (place - len(text)) + more
        start = place if start is None else start
    return text, len(text) if start is None else start


def _mention(text: str, annotation: dict[str, Any]) -> Mention:
    """The mention of an annotation; one in pieces reaches from the first to the last of them."""
    places = [
        (_integer(offset, "the offset of an annotation"), _integer(length, "its length"))
        for offset, length in annotation["locations"]
    ]
    if not places:
        raise PelError(f"the annotation {annotation['text']!r} has no location", "give it one")
    infons = annotation["infons"]
    return mention_at(
        text,
        min(offset for offset, _ in places),
        max(offset + length for offset, length in places),
        infons.get("type", ""),
        curated_ids(infons.get("identifier", "")),
        expected=annotation["text"] if len(places) == 1 else None,
    )


def _integer(value: str | int, what: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise PelError(f"{what} is {value!r}, no whole number", "correct it") from None
