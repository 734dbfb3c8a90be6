"""MedMentions and ZESHEL in their official layouts: splits, offsets, and nothing lost in silence."""

import json

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.corpora.document_corpus import make_medmentions_corpus, make_zeshel_corpus
from spacy_pel.documents import published_splits
from spacy_pel.errors import PelError
from spacy_pel.spans import gold_ids

from ..corpora.layouts import ABSTRACTS, PMIDS, write_json_lines, write_medmentions, write_zeshel


def documents(folder, split):
    return list(make_medmentions_corpus(folder, split).documents())


@pytest.mark.parametrize("below", ["full", "full/data", "st21pv", "st21pv/data"])
def test_a_split_holds_the_documents_of_its_list(tmp_path, below):
    folder = write_medmentions(tmp_path / "MedMentions")
    for split, name in (("train", "trng"), ("dev", "dev"), ("test", "test")):
        found = documents(folder / below, split)
        assert [document.id for document in found] == PMIDS[name]
        for document in found:
            title, abstract, mentions = ABSTRACTS[document.id]
            assert document.text == f"{title} {abstract}"
            expected = [(text, tuis, (cui,)) for text, tuis, cui in mentions]
            assert [(m.text, m.label, m.ids) for m in document.mentions] == expected


def test_faults_of_medmentions(tmp_path):
    folder = write_medmentions(tmp_path / "MedMentions")
    with pytest.raises(PelError, match="choose one of train, dev, test"):
        documents(folder / "full", "trng")
    with pytest.raises(PelError, match="neither MedMentions nor ZESHEL"):
        documents(tmp_path, "dev")
    pmids = folder / "full" / "data" / "corpus_pubtator_pmids_dev.txt"
    pmids.write_text("13\n98\n99\n")
    with pytest.raises(PelError, match="lacks 2 of the 3 PMIDs, such as 98 .*; fetch"):
        documents(folder / "full", "dev")
    pmids.unlink()
    for below in ("full", "st21pv"):
        with pytest.raises(PelError, match="no corpus_pubtator_pmids_dev.txt here or in full/dat"):
            documents(folder / below, "dev")


@pytest.fixture
def zeshel(tmp_path):
    return write_zeshel(tmp_path / "zeshel")


def test_mentions_of_a_document_come_together(zeshel):
    docs = [e.reference for e in make_zeshel_corpus(zeshel, "test")(spacy.blank("en"))]
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


@given(
    words=st.lists(st.text("ab\u00e9.", min_size=1, max_size=3), min_size=1, max_size=12),
    blanks=st.sampled_from([" ", "  ", "\u00a0", " \n"]),
    places=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), min_size=1, max_size=3),
    context=st.integers(0, 4),
)
@settings(deadline=None, max_examples=50)
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
    mentions = [
        {**mention, "start_index": a, "end_index": b, "text": " ".join(words[a : b + 1])}
        for a, b in spans
    ]
    write_json_lines(folder / "mentions" / "val.json", mentions)
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


def test_an_unknown_split_or_world(zeshel):
    with pytest.raises(PelError, match="no split 'dev' of ZESHEL; it has: test, train"):
        list(make_zeshel_corpus(zeshel, "dev").documents())
    with pytest.raises(PelError, match="no world 'lego' in test; it has: garden, harbour"):
        list(make_zeshel_corpus(zeshel, "test", ["garden", "lego"]).documents())


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("mentions/test", {"text": "boat"}, "'boat' but document H1 has something else"),
        ("mentions/test", {"start_index": 5, "end_index": 99}, "something else at tokens 5-99"),
        ("mentions/test", {"start_index": -1}, "line 1: no start_index up to an end_index"),
        ("mentions/test", {"end_index": None}, "no start_index up to an end_index"),
        ("mentions/test", {"label_document_id": None}, "line 1: 'label_document_id' is missing"),
        ("mentions/test", {"context_document_id": "H9"}, "lacks 1 of the 3 documents, such as H9"),
        ("mentions/test", {"corpus": "lego"}, "lego: cannot be read"),
        ("documents/harbour", {"text": 7}, "harbour: line 1: 'text' is missing"),
    ],
)
def test_a_fault_of_zeshel_is_named_with_its_place(zeshel, file, change, message):
    path = zeshel / f"{file}.json"
    first, *others = [json.loads(line) for line in path.read_text("utf8").splitlines()]
    write_json_lines(path, [{**first, **change}, *others])
    with pytest.raises(PelError, match=message):
        list(make_zeshel_corpus(zeshel, "test").documents())
