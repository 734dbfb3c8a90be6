"""MedMentions in its official layout: the splits of the lists, and nothing lost in silence."""

from __future__ import annotations

import pytest
import spacy

from spacy_pel.corpora.document_corpus import make_medmentions_corpus
from spacy_pel.errors import PelError
from spacy_pel.spans import gold_ids

from ..corpora.layouts import ABSTRACTS, PMIDS, write_medmentions


@pytest.fixture
def folder(tmp_path):
    return write_medmentions(tmp_path / "MedMentions")


def pmid_list(folder, split):
    return folder / "full" / "data" / f"corpus_pubtator_pmids_{split}.txt"


@pytest.mark.parametrize("below", ["full", "full/data", "st21pv", "st21pv/data"])
@pytest.mark.parametrize(("split", "name"), [("train", "trng"), ("dev", "dev"), ("test", "test")])
def test_a_split_holds_the_documents_of_its_list(folder, below, split, name):
    documents = list(make_medmentions_corpus(folder / below, split).documents())
    assert [document.id for document in documents] == PMIDS[name]
    for document in documents:
        title, abstract, mentions = ABSTRACTS[document.id]
        assert (document.text, document.title) == (f"{title} {abstract}", title)
        found = [(mention.text, mention.label, mention.ids) for mention in document.mentions]
        assert found == [(text, tuis, (cui,)) for text, tuis, cui in mentions]


def test_examples_have_bare_ids_and_all_types(folder):
    corpus = make_medmentions_corpus(folder / "full", "test", spans_key="sc")
    (example,) = corpus(spacy.blank("en"))
    spans = [(span.text, span.label_, gold_ids(span)) for span in example.reference.spans["sc"]]
    assert spans == [("Cats", "T015", ("C3",)), ("Aspirin", "T109,T121", ("C1",))]
    assert [span.kb_id_ for span in example.predicted.spans["sc"]] == ["", ""]


def test_a_document_in_no_list_is_in_no_split(folder):
    pmid_list(folder, "trng").write_text("11\n")
    splits = [
        make_medmentions_corpus(folder / "full", split).documents() for split in ("train", "dev")
    ]
    assert [document.id for split in splits for document in split] == ["11", "13"]


def test_an_unknown_split(folder):
    with pytest.raises(PelError, match="no split 'trng'; choose one of train, dev, test"):
        list(make_medmentions_corpus(folder / "full", "trng").documents())


def test_a_folder_without_the_corpus(tmp_path):
    with pytest.raises(PelError, match="neither MedMentions nor ZESHEL is in this folder; give"):
        list(make_medmentions_corpus(tmp_path, "dev").documents())


@pytest.mark.parametrize("below", ["full", "st21pv"])
def test_a_missing_list(folder, below):
    pmid_list(folder, "test").unlink()
    with pytest.raises(
        PelError, match="no corpus_pubtator_pmids_test.txt here or in full/data; fetc"
    ):
        list(make_medmentions_corpus(folder / below, "dev").documents())


def test_a_pmid_that_the_corpus_lacks(folder):
    pmid_list(folder, "dev").write_text("13\n98\n99\n")
    with pytest.raises(PelError, match="lacks 2 of the 3 PMIDs of dev, such as 98; fetch"):
        list(make_medmentions_corpus(folder / "full", "dev").documents())
    assert len(list(make_medmentions_corpus(folder / "full", "train").documents())) == 2


def test_a_pmid_in_two_splits(folder):
    pmid_list(folder, "test").write_text("12\n14\n")
    with pytest.raises(PelError, match="PMID 14 is in train and in test; correct the lists"):
        list(make_medmentions_corpus(folder / "full", "dev").documents())
