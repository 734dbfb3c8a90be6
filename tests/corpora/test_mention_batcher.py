"""Batches by mentions: all mentions in their order, the same number in each batch."""

from __future__ import annotations

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import registry

from spacy_pel.corpora.mention_batcher import make_mention_batcher
from spacy_pel.errors import PelError
from spacy_pel.spans import mention_spans

NLP = spacy.blank("en")


def example(number: int, mentions: int, spans_key: str | None = None) -> Example:
    """A document of that many mentions, whose ids tell it and the place."""
    doc = NLP.make_doc("a " * 9)
    predicted = doc.copy()
    spans = [Span(doc, at, at + 1, "TERM", kb_id=f"C{number}.{at}") for at in range(mentions)]
    if spans_key:
        doc.spans[spans_key] = spans
    else:
        doc.ents = spans
    return Example(predicted, doc)


def ids(examples: list[Example], spans_key: str | None = None) -> list[str]:
    return [span.kb_id_ for e in examples for span in mention_spans(e.reference, spans_key)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12), st.sampled_from([None, "sc"]))
def test_batches_hold_all_mentions_in_order_and_are_full(counts, size, spans_key):
    examples = [example(number, count, spans_key) for number, count in enumerate(counts)]
    found = [ids(batch, spans_key) for batch in make_mention_batcher(size, spans_key)(examples)]
    assert [id for batch in found for id in batch] == ids(examples, spans_key)
    assert all(len(batch) == size for batch in found[:-1])
    assert all(0 < len(batch) <= size for batch in found)


def test_a_document_is_copied_only_where_it_is_cut():
    first, second = example(0, 2), example(1, 3)
    (batch, rest) = make_mention_batcher(4)([first, second])
    assert batch[0] is first and batch[1] is not second
    assert rest[0].reference.text == second.reference.text
    assert [ent.label_ for ent in rest[0].reference.ents] == ["TERM"]
    assert len(second.reference.ents) == 3


def test_it_is_registered_and_refuses_an_empty_batch():
    assert registry.batchers.get("spacy-pel.batch_by_mentions.v1") is make_mention_batcher
    with pytest.raises(PelError, match="1 or more"):
        make_mention_batcher(0)
