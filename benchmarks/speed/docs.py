"""spaCy documents whose entities are given as offsets of characters."""

from __future__ import annotations

import re

from protocol import Document
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab


def doc_of(vocab: Vocab, document: Document) -> Doc:
    """Make a Doc; its words are separated by blanks, and by the ends of mentions."""
    text = document.text
    cuts = {0, len(text), *(at for mention in document.mentions for at in mention)}
    cuts.update(at for match in re.finditer(r"\s", text) for at in match.span())
    places = sorted(cuts)
    words = [text[a:b] for a, b in zip(places, places[1:])]
    doc = Doc(vocab, words=words, spaces=[False] * len(words))
    first = {at: i for i, at in enumerate(places)}
    doc.ents = [Span(doc, first[a], first[b], label="ENTITY") for a, b in document.mentions]
    return doc
