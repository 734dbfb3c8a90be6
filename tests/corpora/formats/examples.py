"""Linked docs without a linker, and how the tests of this room read and write files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import spacy
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_pel.corpora import Document, Passage, format_named, make_doc, open_documents
from spacy_pel.corpora.document import mention_at
from spacy_pel.pipeline.annotations import install_extensions
from spacy_pel.spans import gold_ids, mention_spans

NLP = spacy.blank("en")
KEY = "linked"
install_extensions()


def read(path: Path, spans_key: str | None = None, format: str | None = None) -> list[Doc]:
    """The documents of a file or folder; PelError for the first that is bad."""
    return [record.doc(NLP, spans_key) for record in open_documents(str(path), format)]


def written(
    docs: list[Doc],
    path: Path,
    format: str,
    spans_key: str | None = KEY,
    vocabularies: Sequence[str] = (),
) -> Path:
    """The docs, each a part of its own, in a file of the format."""
    output = format_named(format).output_with(vocabularies)
    parts = [path.with_name(f"{number}.part") for number in range(len(docs))]
    for number, (part, doc) in enumerate(zip(parts, docs), start=1):
        output.write_part([(number, doc)], spans_key, part)
    output.join(parts, path)
    return path


def linked(
    text: str, *places: tuple, id: str | None = None, codes: dict | None = None, **more: Any
) -> Doc:
    """A doc whose mentions, in ``doc.spans[KEY]``, are linked in turn to "E0", "E1", and NIL.

    A place is start, end and, where there is one, a label. The codes are those of E0 and E1.
    """
    mentions = tuple(mention_at(text, *place) for place in places)
    doc = make_doc(NLP, Document(text, id, mentions, **more), KEY)
    spans = []
    for number, span in enumerate(doc.spans[KEY]):
        id = ("E0", "E1", "NIL")[number % 3]
        span = doc.char_span(span.start_char, span.end_char, label=span.label, kb_id=id)
        span._.kb_score = 0.5
        span._.kb_types = [] if id == "NIL" else ["Disease", 'a "type",']
        if codes is not None:
            span._.kb_xrefs = {} if id == "NIL" else codes
        span._.kb_candidates = [{"id": "E0", "name": 'a "name"\t,', "score": 0.5}]
        spans.append(span)
    doc.spans[KEY] = spans
    return doc


def annotated(document: Doc | Document) -> list[tuple[int, int, str, tuple[str, ...]]]:
    """Offsets, label and ids of each mention, sorted."""
    if isinstance(document, Document):
        return sorted((m.start, m.end, m.label, m.ids) for m in document.mentions)
    spans = document.spans[KEY]
    return sorted((s.start_char, s.end_char, s.label_, gold_ids(s)) for s in spans)


def bounds(doc: Doc, spans_key: str | None = KEY) -> list[tuple[int, int, str]]:
    """Offsets and label of each mention, sorted."""
    return sorted((s.start_char, s.end_char, s.label_) for s in mention_spans(doc, spans_key))


QUICK = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CHARACTERS = st.one_of(
    st.sampled_from("ab MS,\"'<&>|\t\n\r;é🧬\u2028\x85\x0b\x00-"),
    st.characters(exclude_categories=["Cs"]),
)


@st.composite
def docs(draw: st.DrawFn) -> Doc:
    """A linked doc of any text, in one or two passages, with any mentions."""
    text = draw(st.text(CHARACTERS, max_size=30))
    mentions = []
    for _ in range(draw(st.integers(0, 3)) if text else 0):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        if text[start:end].strip():
            mentions.append((start, end, draw(st.sampled_from(["Disease", "D&G"]))))
    cut = draw(st.integers(0, len(text)))
    passages = []
    if cut < len(text) and draw(st.booleans()):
        passages = [Passage(0, cut, {"type": "title"}), Passage(cut + 1, len(text), {"a": "<b>"})]
        mentions = [m for m in mentions if not m[0] <= cut < m[1]]
        text = text[:cut] + " " + text[cut + 1 :]
        mentions = [m for m in mentions if text[m[0] : m[1]].strip()]
    return linked(text, *mentions, id=draw(st.sampled_from([None, "d1", "é x"])), passages=passages)
