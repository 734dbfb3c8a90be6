"""A document as formats describe it, made into a Doc."""

from __future__ import annotations

from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import filter_spans

from ..spans import split_tokens

DEFAULT_LABEL = "MENTION"  # spaCy takes no entity without a label


class Mention(NamedTuple):
    """A mention: character offsets into the text, and its label, "" for none."""

    start: int
    end: int
    label: str = ""


class Passage(NamedTuple):
    """A part of a text, in characters, and what is said of it, such as {"type": "title"}."""

    start: int
    end: int
    infons: dict[str, str]


class Document(NamedTuple):
    """A document. mentions: those given, be it none at all; None if they are to be found."""

    text: str
    id: str | int | None = None
    mentions: list[Mention] | None = None
    passages: list[Passage] = []
    infons: dict[str, str] = {}


def make_doc(nlp: Language, document: Document, spans_key: str | None) -> Doc:
    """The Doc of a document, tokens split where an edge of a mention falls inside one.

    Its id, passages and infons are in ``doc.user_data``. White space at the edges of a mention is
    left out; one without a label gets DEFAULT_LABEL. Raises ValueError, in one line, for a text
    that is too long, a mention that is not in it, and mentions that overlap without a spans key.
    """
    try:
        doc = nlp.make_doc(document.text)
    except ValueError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if doc.text != document.text:
        raise ValueError("the tokenizer changes the text, so that offsets would not hold")
    if document.id is not None:
        doc.user_data["id"] = document.id
    if document.passages:
        doc.user_data["passages"] = [list(passage) for passage in document.passages]
    if document.infons:
        doc.user_data["infons"] = document.infons
    if document.mentions is not None:
        _set_mentions(doc, document.mentions, spans_key)
    return doc


def passages_of(doc: Doc) -> list[Passage]:
    """The passages of a doc that ``make_doc`` made; all of it is one where none are known."""
    passages: list[Any] = doc.user_data.get("passages") or [[0, len(doc.text), {}]]
    return [Passage(*passage) for passage in passages]


def gives_mentions(doc: Doc, spans_key: str | None) -> bool:
    """Whether mentions were given for a document, be it none at all."""
    return spans_key in doc.spans if spans_key else doc.has_annotation("ENT_IOB")


def _set_mentions(doc: Doc, mentions: list[Mention], spans_key: str | None) -> None:
    trimmed = [_trimmed(doc.text, mention) for mention in mentions]
    split_tokens(doc, {offset for start, end, _ in trimmed for offset in (start, end)})
    spans = [doc.char_span(start, end, label=label) for start, end, label in trimmed]
    if spans_key:
        doc.spans[spans_key] = spans
    elif len(filter_spans(spans)) < len(spans):
        raise ValueError("mentions overlap; set --spans-key to allow that")
    else:
        doc.ents = spans


def _trimmed(text: str, mention: Mention) -> Mention:
    start, end, label = mention
    if not 0 <= start < end <= len(text):
        raise ValueError(f"the mention {start}-{end} is not in the {len(text)} characters of text")
    inner = text[start:end]
    if not inner.strip():
        raise ValueError(f"the mention {start}-{end} is blank")
    return Mention(end - len(inner.lstrip()), start + len(inner.rstrip()), label or DEFAULT_LABEL)
