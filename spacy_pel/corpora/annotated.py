"""What all corpora give: documents with their mentions."""

from __future__ import annotations

from typing import NamedTuple


class AnnotatedMention(NamedTuple):
    """A mention as annotated.

    start, end: character offsets into the document's text, end exclusive.
    text: the characters between them.
    type: the annotated type, for example "Disease".
    ids: entity ids, any of which is right; empty for a mention without an id (NIL).
    """

    start: int
    end: int
    text: str
    type: str
    ids: tuple[str, ...]


class AnnotatedDocument(NamedTuple):
    """A document: its id, its text and its mentions in the order of the corpus.

    title: with what the text begins, where the source parts a title from the rest.
    """

    id: str
    text: str
    mentions: tuple[AnnotatedMention, ...]
    title: str = ""
