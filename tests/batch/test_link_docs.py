from pathlib import Path

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc

from spacy_pel.batch import link_docs
from spacy_pel.batch.link_docs import Linking, batches, doc_length, link_documents, read_in_parts
from spacy_pel.corpora import Document, make_doc
from spacy_pel.corpora.document import mention_at
from spacy_pel.errors import PelError

from ..cli.conftest import TEXT

BLANK = spacy.blank("xx")
TEXTS = st.text(alphabet="ab. \n", max_size=200)
SENTENCE = "Aspirin relieves headache. The patient has MS. "


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of more than 100 characters is long, and 250 are read together."""
    monkeypatch.setattr(link_docs, "MAX_PART", 100)
    monkeypatch.setattr(link_docs, "BATCH_CHARACTERS", 250)


@given(lengths=st.lists(st.integers(0, 400), max_size=30), most=st.integers(1, 5))
def test_batches_are_bounded_and_keep_every_doc(lengths: list[int], most: int) -> None:
    docs = [BLANK.make_doc("x" * length) for length in lengths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_docs, "BATCH_CHARACTERS", 250)
        found = list(batches(docs, most, doc_length))
    assert [doc for batch in found for doc in batch] == docs
    for batch in found:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(len(doc.text) for doc in batch) <= 250
    for batch, after in zip(found, found[1:]):  # none is smaller than it has to be
        assert len(batch) == most or sum(len(d.text) for d in [*batch, after[0]]) > 250


@settings(deadline=None, max_examples=100)
@given(text=TEXTS, longest=st.integers(1, 60))
def test_parts_are_bounded_and_as_many_as_the_text_is_long(text: str, longest: int) -> None:
    doc, read = BLANK.make_doc(text), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_docs, "MAX_PART", longest)
        whole = doc
        if len(doc):
            whole = read_in_parts(doc, lambda parts: (read.append(p) or p for p in parts))
    before, after = ([(t.text, t.whitespace_, t.idx) for t in each] for each in (doc, whole))
    assert before == after
    widest = max((len(token.text_with_ws) for token in doc), default=0)
    assert all(len(part.text.rstrip(" ")) <= max(longest, widest) for part in read)
    if widest <= longest:  # their number is linear
        assert len(read) <= 4 * (len(text) / longest + 1)


def test_a_long_document_has_the_mentions_of_its_parts_and_all_else_of_the_whole(tiny_nlp, small):
    document = Document(SENTENCE * 20, id="long", infons={"type": "book"})
    doc = make_doc(tiny_nlp, document, None)
    seen: list[int] = []
    ruler = tiny_nlp.get_pipe("entity_ruler")

    def noted(self, doc: Doc, call=type(ruler).__call__) -> Doc:
        seen.append(len(doc.text))
        return call(self, doc)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(ruler), "__call__", noted)
        (parted,) = Linking(tiny_nlp).docs([doc])
    assert len(seen) > 5 and max(seen) <= 100
    whole = tiny_nlp(make_doc(tiny_nlp, document, None))
    assert parted.text == whole.text and parted.user_data["id"] == "long"
    assert parted.user_data["infons"] == {"type": "book"}
    assert answers(parted) == answers(whole) and len(answers(parted)) == 40


def answers(doc: Doc) -> list[tuple]:
    return [(e.start, e.end, e.label_, e.kb_id_, e._.kb_score, e._.kb_candidates) for e in doc.ents]


def test_kinds_of_documents_come_back_in_their_order(tiny_nlp: Language, small: None) -> None:
    """Also a long one whose mentions are given."""
    long = SENTENCE * 20
    given = tuple(mention_at(long, 47 * i, 47 * i + 7) for i in range(20))
    texts = [SENTENCE, SENTENCE * 9, long, SENTENCE * 8, SENTENCE * 7, ""]
    documents = [Document(text, mentions=given if text == long else None) for text in texts]
    docs = [make_doc(tiny_nlp, document, None) for document in documents]
    records = list(link_documents(tiny_nlp, docs))
    assert [record["text"] for record in records] == texts
    assert [len(record["mentions"]) for record in records] == [2, 18, 20, 16, 14, 0]
    assert [(m["start"], m["end"]) for m in records[2]["mentions"]] == [m[:2] for m in given]


def test_a_pipeline_has_one_linker(tiny_folder: Path) -> None:
    with pytest.raises(PelError, match="no linker among its components .none."):
        next(link_documents(spacy.blank("en"), []))
    nlp = spacy.load(tiny_folder)
    nlp.add_pipe("proxy_linker", name="second", config={"path": str(tiny_folder), "candidates": 1})
    with pytest.raises(PelError, match="several linkers .proxy_linker, second.; disable all"):
        next(link_documents(nlp, [nlp.make_doc(TEXT)]))
    nlp.disable_pipe("proxy_linker")
    (record,) = link_documents(nlp, [nlp.make_doc(TEXT)])
    assert len(record["mentions"][0]["candidates"]) == 1


def test_a_memory_zone_changes_no_answer_and_keeps_no_string(tiny_nlp: Language) -> None:
    """What the components remember between two zones is not of words that are gone."""
    batches_of = [[f"Case{n}x{k}: MS, and myeloma-{n} again." for k in range(3)] for n in range(4)]
    zoned, sizes = [], []
    for texts in batches_of * 2:
        with tiny_nlp.memory_zone():
            zoned += [answers(doc) for doc in tiny_nlp.pipe(texts)]
        sizes.append(len(tiny_nlp.vocab.strings))
    assert zoned == [answers(doc) for doc in tiny_nlp.pipe(sum(batches_of * 2, []))]
    assert all(zoned) and len(set(sizes)) == 1
