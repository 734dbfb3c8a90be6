"""Batches by mentions: all mentions, in their order or shuffled, the same number in each batch."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import registry

from spacy_pel.corpora import mention_batcher
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


def shuffled(examples: list[Example], size: int, spans_key=None, seed=0) -> list[list[str]]:
    """The ids of each batch."""
    random.seed(seed)
    batcher = make_mention_batcher(size, spans_key, shuffle_mentions=True)
    return [ids(batch, spans_key) for batch in batcher(iter(examples))]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12), st.sampled_from([None, "sc"]))
def test_shuffled_batches_hold_all_mentions_and_are_full(counts, size, spans_key):
    examples = [example(number, count, spans_key) for number, count in enumerate(counts)]
    before = ids(examples, spans_key)
    found = shuffled(examples, size, spans_key)
    assert sorted(id for batch in found for id in batch) == sorted(before)
    assert all(len(batch) == size for batch in found[:-1])
    assert all(0 < len(batch) <= size for batch in found)
    assert ids(examples, spans_key) == before


def test_mentions_are_shuffled_one_by_one():
    examples = [example(number, 9) for number in range(40)]
    found = shuffled(examples, 32)
    documents = [len({id.split(".")[0] for id in batch}) for batch in found]
    assert min(documents[:-1]) > 16  # in the order of documents there are 4 or 5
    assert shuffled(examples, 32) == found != shuffled(examples, 32, seed=1)


def test_mentions_of_a_document_in_a_batch_stand_in_one_copy():
    (batch,) = make_mention_batcher(6, shuffle_mentions=True)([first := example(0, 6)])
    assert batch == [first]
    copies = next(make_mention_batcher(5, shuffle_mentions=True)([example(0, 6)]))
    assert len(copies) == 1 and len(copies[0].reference.ents) == 5


def test_some_documents_are_shuffled_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mention_batcher, "SHUFFLED_DOCUMENTS", 3)
    found = [id for batch in shuffled([example(n, 4) for n in range(8)], 5) for id in batch]
    shares = [{int(id[1]) for id in found[12 * i : 12 * (i + 1)]} for i in range(3)]
    assert shares == [{0, 1, 2}, {3, 4, 5}, {6, 7}]


def test_the_state_of_random_at_the_beginning_decides_all(monkeypatch: pytest.MonkeyPatch):
    """Whatever is drawn while batches are learned from: a training that goes on skips that."""
    monkeypatch.setattr(mention_batcher, "SHUFFLED_DOCUMENTS", 3)
    examples = [example(n, 4) for n in range(9)]
    expected = shuffled(examples, 5)
    random.seed(0)
    found = []
    for batch in make_mention_batcher(5, shuffle_mentions=True)(examples):
        found.append(ids(batch))
        random.random()
    assert found == expected
    assert all(a != b for a, b in pairwise(shuffled(examples, 5)))


def test_it_is_registered_and_refuses_an_empty_batch():
    assert registry.batchers.get("spacy-pel.batch_by_mentions.v1") is make_mention_batcher
    with pytest.raises(PelError, match="1 or more"):
        make_mention_batcher(0)
