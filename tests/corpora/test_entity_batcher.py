"""Batches with several mentions of each entity."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Span
from spacy.training import Example

from spacy_pel.corpora.entity_batcher import make_entity_batcher
from spacy_pel.errors import PelError
from spacy_pel.spans import mention_spans

NLP = spacy.blank("xx")


def example(entities: list[int], spans_key: str | None) -> Example:
    """A document with a mention of each of these entities."""
    doc = NLP.make_doc("a " * 9)
    spans = [Span(doc, at, at + 1, "T", kb_id=f"C{number}") for at, number in enumerate(entities)]
    if spans_key:
        doc.spans[spans_key] = spans
    else:
        doc.ents = spans
    return Example(NLP.make_doc("a " * 9), doc)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=10),
    st.integers(2, 3),
    st.integers(3, 8),
    st.sampled_from([None, "sc"]),
)
def test_every_mention_once_and_as_many_pairs_as_there_are(
    documents, per_entity, size, key
) -> None:
    examples = [example(entities, key) for entities in documents]

    def batches() -> list[list[str]]:
        random.seed(4)
        made = make_entity_batcher(size, per_entity, key)(examples)
        return [
            [span.kb_id_ for one in batch for span in mention_spans(one.reference, key)]
            for batch in made
        ]

    found = batches()
    everything = Counter(f"C{number}" for entities in documents for number in entities)
    assert Counter(id for batch in found for id in batch) == everything
    assert all(0 < len(batch) <= size for batch in found)
    # Of an entity, all batches but one hold whole groups.
    for id, count in everything.items():
        counts = [Counter(batch)[id] for batch in found if id in batch]
        assert sum(n % per_entity > 0 for n in counts) == (count % per_entity > 0)
    assert found == batches()


def test_documents_are_grouped_some_at_a_time() -> None:
    examples = [example([number], None) for number in (1, 2, 1, 2)]
    together = list(make_entity_batcher(2)(examples))
    apart = list(make_entity_batcher(2, documents=2)(examples))
    ids = [sorted(e.reference.ents[0].kb_id_ for e in batch) for batch in together]
    assert sorted(ids) == [["C1", "C1"], ["C2", "C2"]]
    assert [sorted(e.reference.ents[0].kb_id_ for e in b) for b in apart] == [["C1", "C2"]] * 2


def test_a_batch_without_a_pair_is_refused() -> None:
    for size, per_entity in ((8, 1), (2, 3)):
        with pytest.raises(PelError, match="give 2 or more of an entity"):
            make_entity_batcher(size, per_entity)
