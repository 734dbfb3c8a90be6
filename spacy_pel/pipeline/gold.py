"""The gold mentions that training learns from: those whose entity the knowledge base has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from spacy.training import Example

from ..kb.knowledge_base import KnowledgeBase
from ..reading.mention import DocumentContext, GoldMention
from ..spans import gold_ids, mention_spans
from .doc_mentions import mentions_in_context


def trainable_mentions(
    examples: Iterable[Example],
    kb: KnowledgeBase,
    spans_key: str | None,
    resolve_abbreviations: bool = False,
    documents: Iterable[DocumentContext | None] | None = None,
) -> list[GoldMention]:
    """The gold mentions that have an entity in the KB.

    Args:
        examples: The examples.
        kb: The knowledge base.
        spans_key: The group of ``doc.spans`` that has the mentions; None if they are in ``doc.ents``.
        resolve_abbreviations: Whether acronyms are read as their long forms.
        documents: The contexts of the predicted docs, if another component has read them.
    """
    mentions = []
    for example, document in zip(examples, documents or repeat(None)):
        spans = mention_spans(example.reference, spans_key)
        text = example.reference.text
        contexts = mentions_in_context(example.reference, spans, resolve_abbreviations, document)
        for span, context in zip(spans, contexts):
            golds = _numbers(kb, gold_ids(span))
            if golds:
                mentions.append(GoldMention(context, golds, text))
    return mentions


def gold_numbers(examples: Iterable[Example], kb: KnowledgeBase, spans_key: str | None) -> set[int]:
    """The numbers of the gold entities of the examples that the KB has.

    Args:
        examples: Examples with gold mentions.
        kb: The knowledge base.
        spans_key: The mentions are ``doc.spans[spans_key]``; None: ``doc.ents``.
    """
    return {
        number
        for example in examples
        for span in mention_spans(example.reference, spans_key)
        for number in _numbers(kb, gold_ids(span))
    }


def _numbers(kb: KnowledgeBase, ids: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the ids, without those that the KB lacks."""
    numbers = (kb.number(id) for id in ids)
    return tuple(dict.fromkeys(n for n in numbers if n is not None))
