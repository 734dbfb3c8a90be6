import logging

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_pel.corpora.document import Document, mention_at
from spacy_pel.corpora.document_corpus import make_document_corpus, open_corpus
from spacy_pel.corpora.formats.pubtator import pubtator_text
from spacy_pel.errors import PelError
from spacy_pel.spans import gold_ids, mention_spans

from ..conftest import write_text

NLP = spacy.blank("en")
CHARACTERS = st.one_of(
    st.sampled_from("abcXYZ019-/().,'  \u00a0\u00e9\u0301\u6f22\U0001f600\u200d"),
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"),
)
IDS = [(), ("C1",), ("D1", "D2")]
OVERLAPPING = "1|t|anti-TNFalpha therapy\n1|a|can't\n" + "".join(
    f"1\t{start}\t{end}\t{'anti-TNFalpha therapy'[start:end]}\tT\t{id}\n"
    for start, end, id in [(5, 8, "C1"), (0, 13, "C2|C3"), (14, 21, "-1")]
)


@pytest.fixture
def path(tmp_path):
    return write_text(tmp_path / "overlapping.pubtator", OVERLAPPING)


@st.composite
def documents(draw):
    """A document with mentions anywhere, none of them blank."""
    text = draw(st.text(CHARACTERS, min_size=1, max_size=30))
    offset = st.integers(0, len(text))
    mentions = [
        mention_at(text, start, end, draw(st.sampled_from(["Disease", "T047"])), ids)
        for start, end in draw(st.lists(st.tuples(offset, offset).map(sorted), max_size=8))
        for ids in [draw(st.sampled_from(IDS))]
        if text[start:end].strip()
    ]
    return Document(text, "9", tuple(mentions))


def token_edges(doc):
    return {edge for token in doc for edge in (token.idx, token.idx + len(token))}


@given(document=documents())
def test_every_mention_is_found_again(tmp_path_factory, document):
    path = tmp_path_factory.getbasetemp() / "one.pubtator"
    path.write_text(pubtator_text(document), "utf-8", newline="\n")
    (example,) = make_document_corpus(path, spans_key="sc")(NLP)
    spans = mention_spans(example.reference, "sc")
    found = [(s.start_char, s.end_char, s.text, s.label_, gold_ids(s)) for s in spans]
    assert found == list(document.mentions)
    edges = {offset for start, end, *_ in document.mentions for offset in (start, end)}
    assert token_edges(example.reference) == token_edges(NLP.make_doc(document.text)) | edges
    assert example.reference.text == example.predicted.text == document.text
    assert [str(token) for token in example.predicted] == [str(t) for t in example.reference]
    # As entities, the longest of those that overlap stay.
    kept: list[tuple[int, int, str]] = []
    for span in sorted(spans, key=lambda span: (-len(span), span.start)):
        if all(span.end <= start or end <= span.start for start, end, _ in kept):
            kept.append((span.start, span.end, span.kb_id_))
    (example,) = make_document_corpus(path)(NLP)
    assert [(ent.start, ent.end, ent.kb_id_) for ent in example.reference.ents] == sorted(kept)


def test_left_out_mentions_are_warned_of_once(path, caplog):
    corpus = make_document_corpus(path)
    with caplog.at_level(logging.INFO, logger="spacy_pel"):
        (example,) = corpus(NLP)
        list(corpus(NLP))
        list(make_document_corpus(path)(NLP))
    assert [gold_ids(ent) for ent in example.reference.ents] == [("C2", "C3"), ()]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: 1 documents, 3 mentions, 1 left out, 1 tokens split",
        f"{path}: 1 of 3 mentions left out, as they overlap a longer one and doc.ents allows no "
        "overlap; set spans_key to keep them",
    ]


@pytest.mark.parametrize("spans_key", [None, "sc"])
def test_predicted_has_the_mentions_without_ids_or_none(path, spans_key):
    (example,) = make_document_corpus(path, spans_key=spans_key)(NLP)
    bare, gold = (mention_spans(doc, spans_key) for doc in (example.predicted, example.reference))
    places = [[(s.start, s.end, s.label_) for s in spans] for spans in (bare, gold)]
    assert places[0] == places[1]
    assert {span.kb_id_ for span in bare} == {""}
    assert {span.kb_id_ for span in gold} >= {"C2|C3", "NIL"}
    (example,) = make_document_corpus(path, spans_key=spans_key, gold_mentions=False)(NLP)
    assert not mention_spans(example.predicted, spans_key)
    assert mention_spans(example.reference, spans_key)


def test_labels_are_renamed(tmp_path):
    path = tmp_path / "a.pubtator"
    path.write_text("1|t|flu, aspirin\n1\t0\t3\tflu\tA\t-1\n1\t5\t12\taspirin\tB\t-1\n")
    [example] = make_document_corpus(path, labels={"A": "Disease"})(NLP)
    for doc in (example.reference, example.predicted):
        assert [ent.label_ for ent in doc.ents] == ["Disease", "B"]


def test_several_files_are_one_corpus_and_limit_is_per_file(tmp_path):
    paths = [tmp_path / "a.pubtator", tmp_path / "b.pubtator"]
    for path in paths:
        lines = (f"{path.stem}{n}|t|Flu\n" for n in range(3))
        path.write_text("\n".join(lines) + "\ne|t|\n", encoding="utf-8")  # without text: goes

    def ids(limit):
        corpus = make_document_corpus([str(path) for path in paths], limit=limit)
        ids = [e.reference.user_data["id"] for e in corpus(NLP)]
        assert ids == [e.predicted.user_data["id"] for e in corpus(NLP)]
        return ids

    assert ids(2) == ["a0", "a1", "b0", "b1"]
    assert len(ids(0)) == 6


def test_bad_settings_and_a_tokenizer_that_changes_the_text_are_refused(path):
    with pytest.raises(PelError, match="has no file; name one"):
        make_document_corpus([])
    with pytest.raises(PelError, match="limit of a corpus is -1; set it to 0"):
        make_document_corpus(path, limit=-1)
    nlp = spacy.blank("en")
    nlp.tokenizer = lambda text: Doc(nlp.vocab, words=text.lower().split())
    with pytest.raises(PelError, match="ing.pubtator: the tokenizer changes .* 1, so.*; use a"):
        list(make_document_corpus(path)(nlp))


def test_a_corpus_without_documents_or_ids_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(PelError, match="a.json: no documents in it; give a corpus with documents"):
        list(open_corpus(tmp_path / "a.json").documents())
    (tmp_path / "a.json").unlink()
    no_ids = "files have no entity ids; give it the"
    for name, problem in (("a.csv.gz", no_ids), ("a.pdf", "unknown kind of file")):
        (tmp_path / name).touch()
        with pytest.raises(PelError, match=f"{name}: .*{problem}.* give a file .jsonl, "):
            open_corpus(tmp_path / name)
    with pytest.raises(PelError, match="no readable file in it; give a file .jsonl, "):
        open_corpus(tmp_path)
