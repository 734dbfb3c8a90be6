"""ZESHEL in its official layout: mentions by token become mentions by character."""

from __future__ import annotations

import json

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.corpora.document_corpus import make_zeshel_corpus
from spacy_pel.documents import published_splits
from spacy_pel.errors import PelError
from spacy_pel.spans import gold_ids

from ..corpora.layouts import write_json_lines, write_zeshel


@pytest.fixture
def folder(tmp_path):
    return write_zeshel(tmp_path / "zeshel")


def changed(path, **changes):
    """The JSON lines of a file, with the first record changed."""
    records = [json.loads(line) for line in path.read_text("utf8").splitlines()]
    records[0].update(changes)
    write_json_lines(path, records)


def test_mentions_of_a_document_come_together(folder):
    examples = list(make_zeshel_corpus(folder, "test")(spacy.blank("en")))
    docs = [example.reference for example in examples]
    found = [
        (doc.user_data["id"], [(e.start_char, e.text, e.label_, gold_ids(e)) for e in doc.ents])
        for doc in docs
    ]
    label = "LOW_OVERLAP"
    assert found == [
        ("G2", [(44, "rose", label, ("G1",))]),
        ("H1", [(19, "ship", label, ("H2",)), (31, "quay", label, ("H3",))]),
        ("H3", [(13, "ship", label, ("H2",))]),
    ]
    assert docs[0].text == "Tulip ( flower ) Grows from a bulb near the rose ."


def test_worlds_and_limit(folder):
    def ids(**settings):
        return [
            document.id for document in make_zeshel_corpus(folder, "test", **settings).documents()
        ]

    assert ids(worlds=["harbour"]) == ["H1", "H3"]
    assert ids(worlds=["harbour", "garden"]) == ids() == ["G2", "H1", "H3"]
    assert ids(limit=1) == ["G2", "H1"]  # of each world


def test_a_mention_of_several_tokens(folder):
    (document,) = make_zeshel_corpus(folder, "train").documents()
    (mention,) = document.mentions
    assert (mention.text, mention.ids) == ("Tulip ( flower )", ("G2",))
    assert document.text[mention.start : mention.end] == mention.text


@given(
    words=st.lists(st.text("ab\u00e9.", min_size=1, max_size=3), min_size=1, max_size=12),
    blanks=st.sampled_from([" ", "  ", "\u00a0", " \n"]),
    places=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), min_size=1, max_size=3),
    context=st.integers(0, 4),
)
@settings(deadline=None)
def test_offsets_agree_with_split(tmp_path_factory, words, blanks, places, context):
    folder = tmp_path_factory.mktemp("any")
    (folder / "documents").mkdir()
    (folder / "mentions").mkdir()
    text = blanks.join(words)
    spans = [(first, min(first + more, len(words) - 1)) for first, more in places]
    spans = [(first, last) for first, last in spans if first <= last]
    record = {"document_id": "D", "title": "T", "text": text}
    write_json_lines(folder / "documents" / "w.json", [record])
    mention = {"corpus": "w", "context_document_id": "D", "category": "c", "label_document_id": "E"}
    write_json_lines(
        folder / "mentions" / "val.json",
        [
            {**mention, "start_index": a, "end_index": b, "text": " ".join(words[a : b + 1])}
            for a, b in spans
        ],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published_splits, "CONTEXT_WORDS", context)
        documents = list(make_zeshel_corpus(folder, "val").documents())
    assert len(documents) == bool(spans)
    for document in documents:
        texts = [document.text[mention.start : mention.end] for mention in document.mentions]
        assert texts == [mention.text for mention in document.mentions]
        assert [text.split() for text in texts] == [words[a : b + 1] for a, b in spans]
        first, last = min(a for a, _ in spans), max(b for _, b in spans)
        assert document.text.split() == words[max(0, first - context) : last + 1 + context]


def test_an_unknown_split_or_world(folder):
    with pytest.raises(PelError, match="no split 'dev' of ZESHEL; it has: test, train"):
        list(make_zeshel_corpus(folder, "dev").documents())
    with pytest.raises(PelError, match="no world 'lego' in test; it has: garden, harbour"):
        list(make_zeshel_corpus(folder, "test", ["garden", "lego"]).documents())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "boat"}, "reads 'boat' but document H1 has something else at tokens 4-4; fetch"),
        ({"start_index": 5, "end_index": 99}, "something else at tokens 5-99"),
        ({"start_index": 5}, "test.json, line 1: no start_index up to an end_index; correct"),
        ({"start_index": -1}, "no start_index up to an end_index"),
        ({"end_index": None}, "no start_index up to an end_index"),
        ({"label_document_id": None}, "line 1: 'label_document_id' is no text, or blank; give"),
        ({"context_document_id": "H9"}, "lacks 1 documents, such as H9 of .*test.json, line 1; f"),
        ({"corpus": "lego"}, "lego.json: cannot be read"),
    ],
)
def test_a_fault_is_named_with_its_place(folder, change, message):
    changed(folder / "mentions" / "test.json", **change)
    with pytest.raises(PelError, match=message):
        list(make_zeshel_corpus(folder, "test").documents())


def test_a_document_that_is_none(folder):
    changed(folder / "documents" / "harbour.json", text=7)
    with pytest.raises(PelError, match="harbour.json, line 1: 'text' is no text, or blank; give"):
        list(make_zeshel_corpus(folder, "test").documents())
