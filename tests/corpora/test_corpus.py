"""The PubTator corpus: every mention comes back at its characters, and nothing goes in silence."""

import logging
import pickle

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span

from spacy_pel.corpora.document_corpus import make_pubtator_corpus
from spacy_pel.errors import PelError
from spacy_pel.spans import gold_ids, mention_spans

CHARACTERS = st.one_of(
    st.sampled_from("abcXYZ019-/().,'  \u00a0\u00e9\u0301\u6f22\U0001f600\u200d"),
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"),
)
IDS = [(), ("C1",), ("D1", "D2")]
OVERLAPPING = "1|t|anti-TNFalpha therapy\n1|a|can't\n" + "".join(
    f"1\t{start}\t{end}\t{'anti-TNFalpha therapy'[start:end]}\tT\t{id}\n"
    for start, end, id in [(5, 8, "C1"), (0, 13, "C2|C3"), (14, 21, "-1")]
)


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "overlapping.txt"
    path.write_text(OVERLAPPING, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("corpus")


@st.composite
def documents(draw):
    """A title, an abstract and (start, end, type, ids) of mentions anywhere, none of them blank."""
    title, abstract = draw(st.text(CHARACTERS, min_size=1)), draw(st.text(CHARACTERS))
    text = f"{title} {abstract}"
    offset = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(offset, offset).map(sorted), max_size=8))
    mentions = [
        (start, end, draw(st.sampled_from(["Disease", "T047"])), draw(st.sampled_from(IDS)))
        for start, end in pairs
        if text[start:end].strip()
    ]
    return title, abstract, mentions


def write_document(path, title, abstract, mentions):
    text = f"{title} {abstract}"
    rows = [
        f"9\t{start}\t{end}\t{text[start:end]}\t{type}\t{'|'.join(ids) or '-1'}\n"
        for start, end, type, ids in mentions
    ]
    path.write_text(f"9|t|{title}\n9|a|{abstract}\n{''.join(rows)}", "utf-8", newline="\n")
    return text


def trimmed(text, start, end):
    while text[start].isspace():
        start += 1
    while text[end - 1].isspace():
        end -= 1
    return start, end


def token_edges(doc):
    return {edge for token in doc for edge in (token.idx, token.idx + len(token))}


@given(document=documents())
@settings(deadline=None)
def test_every_mention_is_found_again(nlp, folder, document):
    title, abstract, mentions = document
    text = write_document(folder / "one.txt", title, abstract, mentions)
    (example,) = make_pubtator_corpus(folder / "one.txt", spans_key="sc")(nlp)
    expected = [(*trimmed(text, start, end), *rest) for start, end, *rest in mentions]
    found = [
        (span.start_char, span.end_char, span.label_, gold_ids(span))
        for span in mention_spans(example.reference, "sc")
    ]
    assert sorted(found) == sorted(expected)
    edges = {offset for start, end, *_ in expected for offset in (start, end)}
    assert token_edges(example.reference) == token_edges(nlp.make_doc(text)) | edges
    assert example.reference.text == example.predicted.text == text
    assert [token.text for token in example.predicted] == [
        token.text for token in example.reference
    ]


@given(document=documents())
@settings(deadline=None)
def test_entities_are_the_longest_of_what_overlaps(nlp, folder, document):
    write_document(folder / "ents.txt", *document)
    (example,) = make_pubtator_corpus(folder / "ents.txt")(nlp)
    (everything,) = make_pubtator_corpus(folder / "ents.txt", spans_key="sc")(nlp)
    kept = []
    for span in sorted(
        mention_spans(everything.reference, "sc"), key=lambda span: (-len(span), span.start)
    ):
        if all(span.end <= start or end <= span.start for start, end, _ in kept):
            kept.append((span.start, span.end, span.kb_id_))
    found = [(ent.start, ent.end, ent.kb_id_) for ent in mention_spans(example.reference)]
    assert found == sorted(kept)


def test_left_out_mentions_are_warned_of_once(nlp, path, caplog):
    corpus = make_pubtator_corpus(path)
    with caplog.at_level(logging.INFO, logger="spacy_pel"):
        (example,) = corpus(nlp)
        list(corpus(nlp))
        list(make_pubtator_corpus(path)(nlp))
    assert [gold_ids(ent) for ent in example.reference.ents] == [("C2", "C3"), ()]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: 1 documents, 3 mentions, 1 left out, 1 tokens split",
        f"{path}: 1 of 3 mentions left out, as they overlap a longer one and doc.ents allows no "
        "overlap; set spans_key to keep them",
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_spans_leave_nothing_out(nlp, path, caplog):
    with caplog.at_level(logging.WARNING, logger="spacy_pel"):
        (example,) = make_pubtator_corpus(path, spans_key="sc")(nlp)
    assert [span.text for span in mention_spans(example.reference, "sc")] == [
        "TNF",
        "anti-TNFalpha",
        "therapy",
    ]
    assert not example.reference.ents and not caplog.records


@pytest.mark.parametrize("spans_key", [None, "sc"])
def test_predicted_carries_mentions_without_ids(nlp, path, spans_key):
    (example,) = make_pubtator_corpus(path, spans_key=spans_key)(nlp)
    bare, gold = (mention_spans(doc, spans_key) for doc in (example.predicted, example.reference))
    assert [(span.start, span.end, span.label_) for span in bare] == [
        (span.start, span.end, span.label_) for span in gold
    ]
    assert {span.kb_id_ for span in bare} == {""}
    assert {span.kb_id_ for span in gold} >= {"C2|C3", "NIL"}


@pytest.mark.parametrize("spans_key", [None, "sc"])
def test_without_gold_mentions_predicted_is_bare(nlp, path, spans_key):
    (example,) = make_pubtator_corpus(path, spans_key=spans_key, gold_mentions=False)(nlp)
    assert not mention_spans(example.predicted, spans_key)
    assert mention_spans(example.reference, spans_key)


def test_labels_are_renamed(nlp, tmp_path):
    text = "1|t|flu, colds, aspirin\n" + "".join(
        f"1\t{start}\t{end}\t{word}\t{label}\tD1\n"
        for start, end, word, label in [
            (0, 3, "flu", "SpecificDisease"),
            (5, 10, "colds", "DiseaseClass"),
            (12, 19, "aspirin", "Chemical"),
        ]
    )
    (tmp_path / "a.pubtator").write_text(text)
    labels = {"SpecificDisease": "Disease", "DiseaseClass": "Disease"}
    [example] = make_pubtator_corpus(tmp_path / "a.pubtator", labels=labels)(nlp)
    for doc in (example.reference, example.predicted):
        assert [ent.label_ for ent in doc.ents] == ["Disease", "Disease", "Chemical"]


def test_splitting_keeps_what_the_tokenizer_knows(nlp, path):
    (example,) = make_pubtator_corpus(path, spans_key="sc")(nlp)
    norms = {token.text: token.norm_ for token in example.predicted}
    assert norms["TNF"] == "tnf" and norms["n't"] == "not"
    assert not example.reference.has_annotation("DEP")
    assert not example.reference.has_annotation("SENT_START")


def test_several_files_are_one_corpus_and_limit_is_per_file(nlp, tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        lines = (f"{path.stem}{n}|t|Flu\n{path.stem}{n}|a|x\n" for n in range(3))
        path.write_text("\n".join(lines), encoding="utf-8")

    def ids(limit):
        corpus = make_pubtator_corpus([str(path) for path in paths], limit=limit)
        return [
            (example.reference.user_data["id"], example.predicted.user_data["id"])
            for example in corpus(nlp)
        ]

    assert ids(2) == [(id, id) for id in ("a0", "a1", "b0", "b1")]
    assert len(ids(0)) == 6


def test_every_call_makes_new_docs(nlp, path):
    corpus = make_pubtator_corpus(path)
    (first,), (second,) = corpus(nlp), corpus(nlp)
    assert first.reference is not second.reference
    assert first.reference.to_json() == second.reference.to_json()


def test_documents_without_text_are_passed_over(nlp, tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("1|t|\n\n2|t|Flu\n", encoding="utf-8")
    assert [example.reference.text for example in make_pubtator_corpus(path)(nlp)] == ["Flu"]


def test_pickle_gives_the_same_examples(nlp, path):
    corpus = make_pubtator_corpus([path], spans_key="sc")
    copy = pickle.loads(pickle.dumps(corpus))
    (one,), (other,) = corpus(nlp), copy(nlp)
    assert one.reference.to_json() == other.reference.to_json()


def test_docbin_keeps_mentions_and_document_id(nlp, path):
    (example,) = make_pubtator_corpus(path)(nlp)
    docs = DocBin(docs=[example.reference], store_user_data=True).get_docs(nlp.vocab)
    (doc,) = docs
    assert doc.user_data["id"] == "1"
    assert [gold_ids(span) for span in mention_spans(doc)] == [("C2", "C3"), ()]


@pytest.mark.parametrize(
    ("kb_id", "ids"), [("", ()), ("NIL", ()), ("C1", ("C1",)), ("C1|C2", ("C1", "C2"))]
)
def test_gold_ids(nlp, kb_id, ids):
    assert gold_ids(Span(nlp.make_doc("flu"), 0, 1, label="T", kb_id=kb_id)) == ids


def test_mention_spans_of_a_doc_without_the_key(nlp):
    assert mention_spans(nlp.make_doc("flu"), "sc") == []


def test_a_tokenizer_that_changes_the_text_is_refused(path):
    nlp = spacy.blank("en")
    nlp.tokenizer = lambda text: Doc(nlp.vocab, words=text.lower().split())
    with pytest.raises(PelError, match="overlapping.txt: the tokenizer changes .* 1, so.*; use a"):
        list(make_pubtator_corpus(path)(nlp))


def test_bad_settings_are_refused(path):
    with pytest.raises(PelError, match="without a file; name one"):
        make_pubtator_corpus([])
    with pytest.raises(PelError, match="limit of a corpus is -1; set it to 0"):
        make_pubtator_corpus(path, limit=-1)
