"""Linked docs without a linker, and how the tests of this room read and write files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc

from spacy_pel.documents import Document, format_named, make_doc, open_documents
from spacy_pel.documents.document import mention_at
from spacy_pel.pipeline.extensions import install_extensions
from spacy_pel.spans import mention_spans

NLP = spacy.blank("en")
KEY = "linked"
install_extensions()


def read(path: Path, spans_key: str | None = None, format: str | None = None) -> list[Doc]:
    """The documents of a file or folder; PelError for the first that is bad."""
    return [record.doc(NLP, spans_key) for record in open_documents(str(path), format)]


def written(docs: list[Doc], path: Path, format: str, spans_key: str | None = KEY) -> Path:
    """The docs, each a part of its own, in a file of the format."""
    output = format_named(format).output
    parts = [path.with_name(f"{number}.part") for number in range(len(docs))]
    for number, (part, doc) in enumerate(zip(parts, docs), start=1):
        output.write_part([(number, doc)], spans_key, part)
    output.join(parts, path)
    return path


def linked(text: str, *places: tuple, id: str | None = None, **more: Any) -> Doc:
    """A doc whose mentions, in ``doc.spans[KEY]``, are linked in turn to "E0", "E1", and NIL.

    A place is start, end and, where there is one, a label.
    """
    mentions = tuple(mention_at(text, *place) for place in places)
    doc = make_doc(NLP, Document(text, id, mentions, **more), KEY)
    spans = []
    for number, span in enumerate(doc.spans[KEY]):
        id = ("E0", "E1", "NIL")[number % 3]
        span = doc.char_span(span.start_char, span.end_char, label=span.label, kb_id=id)
        span._.kb_score = 0.5
        span._.kb_candidates = [{"id": "E0", "name": 'a "name"\t,', "score": 0.5}]
        spans.append(span)
    doc.spans[KEY] = spans
    return doc


def bounds(doc: Doc, spans_key: str | None = KEY) -> list[tuple[int, int, str]]:
    """Offsets and label of each mention, sorted."""
    return sorted((s.start_char, s.end_char, s.label_) for s in mention_spans(doc, spans_key))
