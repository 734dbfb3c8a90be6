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
    pieces = _Pieces()
    passages = [Passage(*pieces.add(p["texts"]), p["infons"]) for p in data["passages"]]
    text = "".join(pieces.texts)
    annotations = [a for part in (data, *data["passages"]) for a in part["annotations"]]
    mentions = tuple(_mention(text, annotation) for annotation in annotations)
    id = data["id"].strip() or None
    return Document(text, id, mentions or None, tuple(passages), data["infons"])


class _Pieces:
    """The pieces of a text, with blanks between those that have a gap."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._end = 0

    def add(self, texts: list[list[str]]) -> tuple[int, int]:
        """Put texts at their offsets, and return where the first begins and where the last ends."""
        start = None
        for offset, more in texts:
            place = _integer(offset, "the offset of a passage")
            if not self._end <= place <= LONGEST:
                raise PelError(
                    f"a passage at {place}, where the text before it ends at {self._end}",
                    f"correct the offsets, which count characters up to {LONGEST:,}",
                )
            self.texts += [" " * (place - self._end), more]
            self._end = place + len(more)
            start = place if start is None else start
        return (self._end if start is None else start), self._end


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
