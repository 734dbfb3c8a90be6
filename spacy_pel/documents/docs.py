"""Documents as spaCy Docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import PelError
from ..spans import NIL, mention_spans, split_tokens
from .document import Document, Mention, Passage
from .unbroken_runs import tokens_of

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span

DEFAULT_LABEL = "MENTION"  # spaCy takes no entity without a label


class OverlappingMentions(PelError):
    """The mentions of a document overlap, which those of ``doc.ents`` must not."""


def tokenized(nlp: Language, document: Document) -> tuple[Doc, int]:
    """The text of a document as tokens, and how many of these had to be split.

    A token is split where the edge of a mention falls inside it. The id of the document is
    ``doc.user_data["id"]``.

    Raises:
        PelError: If the text is too long for the pipeline, or its tokenizer changes the text.
    """
    try:
        doc = tokens_of(nlp, document.text)
    except ValueError as error:
        problem = str(error).splitlines()[0]
        raise PelError(problem, "split the document, or raise nlp.max_length") from error
    if doc.text != document.text:
        which = "" if document.id is None else f" of document {document.id}"
        raise PelError(
            f"the tokenizer changes the text{which}, so offsets no longer hold",
            "use a tokenizer that keeps every character",
        )
    if document.id is not None:
        doc.user_data["id"] = document.id
    edges = {edge for mention in document.mentions or () for edge in (mention.start, mention.end)}
    return split_tokens(doc, edges)


def span_of(doc: Doc, mention: Mention, kb_id: str = "") -> Span:
    """The span of a mention in a Doc of ``tokenized``; without a label it gets DEFAULT_LABEL."""
    label = mention.label or DEFAULT_LABEL
    return doc.char_span(mention.start, mention.end, label=label, kb_id=kb_id)


def set_mentions(doc: Doc, spans: Sequence[Span], spans_key: str | None) -> None:
    """Make the spans ``doc.spans[spans_key]``, or ``doc.ents`` if the key is None."""
    if spans_key:
        doc.spans[spans_key] = spans
    else:
        doc.ents = spans


def make_doc(nlp: Language, document: Document, spans_key: str | None) -> Doc:
    """The Doc of a document, ready to be linked: its mentions have no ids.

    Its id, passages and infons are in ``doc.user_data``.

    Args:
        nlp: The pipeline whose tokenizer makes the tokens.
        document: The document.
        spans_key: Where its mentions go, if they are given; see ``set_mentions``.

    Raises:
        PelError: As ``tokenized`` does.
        OverlappingMentions: For mentions that overlap without a spans key.
    """
    from spacy.util import filter_spans

    doc, _ = tokenized(nlp, document)
    if document.passages:
        doc.user_data["passages"] = [list(passage) for passage in document.passages]
    if document.infons:
        doc.user_data["infons"] = document.infons
    if document.mentions is not None:
        spans = [span_of(doc, mention) for mention in document.mentions]
        if not spans_key and len(filter_spans(spans)) < len(spans):
            raise OverlappingMentions("mentions overlap", "set --spans-key to allow that")
        set_mentions(doc, spans, spans_key)
    return doc


def keep_ids(doc: Doc, document: Document, spans_key: str | None) -> None:
    """Give the mentions of a Doc the ids that they have in its document; those without are NIL."""
    from spacy.tokens import Span

    ids = {(m.start, m.end): m.ids[0] if m.ids else NIL for m in document.mentions or ()}
    spans = [
        Span(doc, s.start, s.end, label=s.label, kb_id=ids.get((s.start_char, s.end_char), ""))
        for s in mention_spans(doc, spans_key)
    ]
    if document.mentions is not None:
        set_mentions(doc, spans, spans_key)


def passages_of(doc: Doc) -> tuple[Passage, ...]:
    """The passages of a Doc that ``make_doc`` made; the whole text is one where none are known."""
    passages: list[Any] = doc.user_data.get("passages") or [[0, len(doc.text), {}]]
    return tuple(Passage(*passage) for passage in passages)


def gives_mentions(doc: Doc, spans_key: str | None) -> bool:
    """Whether the mentions of a document were given, even if there are none."""
    return spans_key in doc.spans if spans_key else doc.has_annotation("ENT_IOB")
