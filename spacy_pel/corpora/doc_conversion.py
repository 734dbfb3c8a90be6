"""Conversion of documents to spaCy Docs, and of linked Docs to plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import PelError
from ..spans import NIL, gold_ids, mention_spans, split_tokens
from .document import Document, Mention, Passage, mention_at

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span

DEFAULT_LABEL = "MENTION"  # spaCy rejects an entity without a label
# Characters without white space that are tokenized as one run. Longer runs are links, codes, and garbage.
MAX_RUN = 500
# The limit for runs of punctuation, and the characters that spaCy splits off a word one at a time.
MAX_SIGNS = 40
_LONG_WORD = re.compile(rf"\S{{{MAX_SIGNS + 1},}}")
_SIGNS = re.compile(rf"[^\w\s]{{{MAX_SIGNS + 1},}}")
_TAKEN_OFF = frozenset("()[]{}<>\"'=*+,;:!?%$#&£€¥§°«»„“”‘’…")
# A boundary between tokens: after a single space, or before other white space.
_BETWEEN_TOKENS = re.compile(r"(?<=\S )(?=\S)|(?<=\S)(?=[^\S ])")


def tokenized(nlp: Language, document: Document) -> tuple[Doc, int]:
    """Return the Doc of a document and the number of tokens that were split at the edges of mentions.

    Raises:
        PelError: The text is too long for the pipeline, or its tokenizer changes the text.
    """
    try:
        doc = tokens_of(nlp, document.text)
    except UnicodeEncodeError as error:
        place = document.text.index(error.object[error.start])
        problem = f"the character {place} of the text is half of one (a lone surrogate)"
        raise PelError(problem, "write the whole character, or a space") from error
    except ValueError as error:
        problem = str(error).partition(". ")[0]  # the rest of spaCy's message is about memory
        raise PelError(problem, "split the document, or raise nlp.max_length") from error
    if doc.text != document.text:
        which = "" if document.id is None else f" of document {document.id}"
        problem = f"the tokenizer changes the text{which}, so offsets no longer hold"
        raise PelError(problem, "use a tokenizer that keeps every character")
    if document.id is not None:
        doc.user_data["id"] = document.id
    edges = {edge for mention in document.mentions or () for edge in (mention.start, mention.end)}
    return split_tokens(doc, edges)


def span_of(doc: Doc, mention: Mention, kb_id: str = "") -> Span:
    """Return the span of a mention in a Doc of ``tokenized``."""
    label = mention.label or DEFAULT_LABEL
    span = doc.char_span(mention.start, mention.end, label=label, kb_id=kb_id)
    assert span is not None  # ``tokenized`` splits tokens at the edges of mentions
    return span


def set_mentions(doc: Doc, spans: Sequence[Span], spans_key: str | None) -> None:
    """Set ``doc.spans[spans_key]``, or ``doc.ents`` if the key is None."""
    if spans_key:
        doc.spans[spans_key] = spans
    else:
        doc.ents = spans


def make_doc(nlp: Language, document: Document, spans_key: str | None) -> Doc:
    """Return the Doc of a document to link. Its mentions have no ids.

    The id, passages and infons are in ``doc.user_data``. For the spans key see ``set_mentions``.

    Raises:
        PelError: Mentions overlap and there is no spans key; or as in ``tokenized``.
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
            remedy = "set a spans key (--spans-key), or give each in a document of its own"
            raise PelError("mentions overlap", remedy)
        set_mentions(doc, spans, spans_key)
    return doc


def keep_ids(doc: Doc, document: Document, spans_key: str | None) -> None:
    """Give the mentions of a Doc their ids in the document, or NIL."""
    from spacy.tokens import Span

    ids = {(m.start, m.end): m.ids[0] if m.ids else NIL for m in document.mentions or ()}
    spans = [
        Span(doc, s.start, s.end, label=s.label, kb_id=ids.get((s.start_char, s.end_char), ""))
        for s in mention_spans(doc, spans_key)
    ]
    if document.mentions is not None:
        set_mentions(doc, spans, spans_key)


def document_of_doc(doc: Doc, spans_key: str | None) -> Document:
    """Return the document of a Doc, with the mentions of this span group or, without one, of ``doc.ents``."""
    key = spans_key if gives_mentions(doc, spans_key) else None
    mentions, text = None, doc.text
    if gives_mentions(doc, key):
        mentions = tuple(
            mention_at(text, span.start_char, span.end_char, span.label_, gold_ids(span))
            for span in mention_spans(doc, key)
        )
    return Document(text, doc.user_data.get("id"), mentions)


def passages_of(doc: Doc) -> tuple[Passage, ...]:
    """Return the passages of a Doc of ``make_doc``; any other Doc is one passage."""
    passages: list[Any] = doc.user_data.get("passages") or [[0, len(doc.text), {}]]
    return tuple(Passage(*passage) for passage in passages)


def gives_mentions(doc: Doc, spans_key: str | None) -> bool:
    """Return whether mentions were set, even if there are none."""
    return spans_key in doc.spans if spans_key else doc.has_annotation("ENT_IOB")


def tokens_of(nlp: Language, text: str) -> Doc:
    """Tokenize a text as ``nlp.make_doc`` does, but end a token after MAX_RUN characters.

    spaCy's tokenizer reads a word again for each bracket at its ends: 32,000 brackets took 65 seconds.
    Therefore, a run of punctuation ends after MAX_SIGNS, before a character that is a token by itself.
    The text may be longer than ``nlp.max_length``, which limits the input of spaCy's models. Other
    tokenizers get the whole text, because they may support languages without spaces.

    Raises:
        ValueError: The text is too long for a tokenizer that is not spaCy's own.
    """
    from spacy.attrs import NORM
    from spacy.tokenizer import Tokenizer
    from spacy.tokens import Doc

    cuts = _cuts_in_words(text)
    if len(text) > nlp.max_length:
        length = nlp.max_length // 2
        cut = _BETWEEN_TOKENS.search(text, length)
        while cut:
            cuts.append(cut.start())
            cut = _BETWEEN_TOKENS.search(text, cut.start() + length)
    cuts = sorted(set(cuts))
    if not cuts or not isinstance(nlp.tokenizer, Tokenizer):
        return nlp.make_doc(text)
    pieces = [nlp.make_doc(text[start:end]) for start, end in pairwise((0, *cuts, len(text)))]
    # The norm is the only attribute that a tokenizer sets. The pipeline sets the others.
    return Doc.from_docs(
        pieces,
        ensure_whitespace=False,
        attrs=[NORM],
        exclude=["tensor"],  # type: ignore[call-arg]  # missing in spaCy's stub
    )


def _cuts_in_words(text: str) -> list[int]:
    """Return where to cut words that are too long, and long runs of punctuation at the ends of words."""
    cuts: list[int] = []
    for word in _LONG_WORD.finditer(text):
        is_longest = len(word[0]) > MAX_RUN
        if is_longest:
            cuts += range(word.start() + MAX_RUN, word.end(), MAX_RUN)
        for signs in _SIGNS.finditer(text, *word.span()):
            if is_longest or signs.start() == word.start() or signs.end() == word.end():
                last = signs.start()
                for at in range(last + MAX_SIGNS, signs.end()):
                    if at - last >= MAX_SIGNS and text[at] in _TAKEN_OFF:
                        cuts.append(at)
                        last = at
    return cuts


def linked_document(doc: Doc, spans_key: str | None) -> dict[str, Any]:
    """Return a Doc as {"id", "text", "mentions"}, without "id" if it has no ``doc.user_data["id"]``."""
    id = {"id": doc.user_data["id"]} if "id" in doc.user_data else {}
    return {**id, "text": doc.text, "mentions": linked_mentions(doc, spans_key)}


def linked_mentions(doc: Doc, spans_key: str | None) -> list[dict[str, Any]]:
    """Return the mentions of a Doc as plain data, with "xrefs", "attributes" and "via" if they are set."""
    mentions = []
    for span in mention_spans(doc, spans_key):
        candidates, xrefs, via = span._.kb_candidates, span._.kb_xrefs, span._.kb_via
        attributes = span._.kb_attributes
        mention = {
            "start": span.start_char,
            "end": span.end_char,
            "text": span.text,
            "label": span.label_,
            "id": span.kb_id_,
            "name": next((c["name"] for c in candidates if c["id"] == span.kb_id_), None),
            "types": span._.kb_types,
            **({} if xrefs is None else {"xrefs": xrefs}),
            "score": span._.kb_score,
            "probability": span._.kb_probability,
            "candidates": candidates,
            **({} if attributes is None else {"attributes": attributes}),
            **({} if via is None else {"via": via}),
        }
        mentions.append(mention)
    return mentions


def write_attributes(doc: Doc, spans_key: str | None, names: Sequence[str]) -> None:
    """Store these extension attributes of the mentions of a Doc for ``linked_mentions``.

    The values are stored as plain data. Those that JSON cannot represent become strings.
    """
    for span in mention_spans(doc, spans_key):
        values = {name: getattr(span._, name) for name in names}
        span._.kb_attributes = json.loads(json.dumps(values, default=str))


def plain_text(value: Any) -> str:
    """Return the value of an attribute as a string: "true" for True, "" for None, other values as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
