import random
from collections import Counter

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Span
from spacy.training import Example

from spacy_pel.corpora import batchers
from spacy_pel.corpora.batchers import make_entity_batcher, make_mention_batcher
from spacy_pel.corpora.doc_conversion import set_mentions
from spacy_pel.errors import PelError
from spacy_pel.spans import mention_spans

NLP = spacy.blank("xx")


def example(ids: list[str], spans_key: str | None = None) -> Example:
    """A document with a mention of each of these entities."""
    doc = NLP.make_doc("a " * 9)
    predicted = doc.copy()
    spans = [Span(doc, at, at + 1, "TERM", kb_id=id) for at, id in enumerate(ids)]
    set_mentions(doc, spans, spans_key)
    return Example(predicted, doc)


def numbered(number: int, mentions: int, spans_key: str | None = None) -> Example:
    """A document of that many mentions, whose ids tell it and the place."""
    return example([f"C{number}.{at}" for at in range(mentions)], spans_key)


def ids(examples: list[Example], spans_key: str | None = None) -> list[str]:
    return [span.kb_id_ for e in examples for span in mention_spans(e.reference, spans_key)]


def shuffled(examples: list[Example], size: int, spans_key=None, seed=0) -> list[list[str]]:
    """The ids of each batch."""
    random.seed(seed)
    batcher = make_mention_batcher(size, spans_key, shuffle_mentions=True)
    return [ids(batch, spans_key) for batch in batcher(iter(examples))]


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 12), st.sampled_from([None, "sc"]))
def test_batches_hold_all_mentions_and_are_full(counts, size, spans_key):
    examples = [numbered(number, count, spans_key) for number, count in enumerate(counts)]
    before = ids(examples, spans_key)
    in_order = [ids(batch, spans_key) for batch in make_mention_batcher(size, spans_key)(examples)]
    mixed = shuffled(examples, size, spans_key)
    assert [id for batch in in_order for id in batch] == before
    assert sorted(id for batch in mixed for id in batch) == sorted(before)
    for batches in (in_order, mixed):
        assert all(len(batch) == size for batch in batches[:-1])
        assert all(0 < len(batch) <= size for batch in batches)
    assert ids(examples, spans_key) == before


def test_mentions_are_shuffled_one_by_one():
    examples = [numbered(number, 9) for number in range(40)]
    found = shuffled(examples, 32)
    documents = [len({id.split(".")[0] for id in batch}) for batch in found]
    assert min(documents[:-1]) > 16  # in the order of documents there are 4 or 5
    assert shuffled(examples, 32) == found != shuffled(examples, 32, seed=1)


def test_some_documents_are_shuffled_at_a_time_by_the_state_of_random_at_the_beginning(monkeypatch):
    """Whatever is drawn while batches are learned from: a training that goes on skips that."""
    monkeypatch.setattr(batchers, "SHUFFLE_BUFFER", 3)
    examples = [numbered(n, 4) for n in range(8)]
    expected = shuffled(examples, 5)
    flat = [id for batch in expected for id in batch]
    shares = [{int(id[1]) for id in flat[12 * i : 12 * (i + 1)]} for i in range(3)]
    assert shares == [{0, 1, 2}, {3, 4, 5}, {6, 7}]
    random.seed(0)
    found = []
    for batch in make_mention_batcher(5, shuffle_mentions=True)(examples):
        found.append(ids(batch))
        random.random()
    assert found == expected


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=10),
    st.integers(2, 3),
    st.integers(3, 8),
    st.sampled_from([None, "sc"]),
)
def test_every_mention_once_and_as_many_pairs_as_there_are(documents, per_entity, size, key):
    entities = [[f"C{number}" for number in numbers] for numbers in documents]
    examples = [example(ids, key) for ids in entities]

    def batches() -> list[list[str]]:
        random.seed(4)
        return [ids(batch, key) for batch in make_entity_batcher(size, per_entity, key)(examples)]

    found = batches()
    everything = Counter(id for ids in entities for id in ids)
    assert Counter(id for batch in found for id in batch) == everything
    assert all(0 < len(batch) <= size for batch in found)
    # Of an entity, all batches but one hold whole groups.
    for id, count in everything.items():
        counts = [Counter(batch)[id] for batch in found if id in batch]
        assert sum(n % per_entity > 0 for n in counts) == (count % per_entity > 0)
    assert found == batches()


def test_a_batch_without_a_mention_or_a_pair_is_refused():
    with pytest.raises(PelError, match="1 or more"):
        make_mention_batcher(0)
    for size, per_entity in ((8, 1), (2, 3)):
        with pytest.raises(PelError, match="give 2 or more of an entity"):
            make_entity_batcher(size, per_entity)
