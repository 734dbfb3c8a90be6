import gzip
import json
import re
from pathlib import Path

import pytest
from spacy.tokens import Doc

from spacy_pel.corpora import Document, format_named, make_doc, open_documents
from spacy_pel.corpora.doc_conversion import gives_mentions
from spacy_pel.corpora.document import mention_at
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.corpora.formats.bioc import document_of_bioc
from spacy_pel.errors import PelError

from ...growth import assert_linear
from .examples import NLP, bounds, read

BIOC = (
    '<?xml version="1.0"?><!DOCTYPE collection SYSTEM "BioC.dtd"><collection><source>x</source>'
    "{}</collection>"
)
PASSAGE = "<passage><infon key='type'>title</infon><offset>{}</offset><text>{}</text>{}</passage>"
ANNOTATION = (
    "<annotation id='1'><infon key='type'>D</infon><location offset='{}' length='{}'/>"
    "<text>{}</text></annotation>"
)


def bioc(*parts: str) -> str:
    return BIOC.format(f"<document><id>7</id>{''.join(parts)}</document>")


def file(folder: Path, name: str, text: str | bytes) -> Path:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / name


def test_no_mentions_may_be_given(tmp_path: Path) -> None:
    none = file(tmp_path, "b.jsonl", '{"text": "MS.", "mentions": []}')
    assert all(gives_mentions(doc, key) for key in (None, "k") for doc in read(none, key))


def test_overlapping_mentions_need_a_spans_key(tmp_path: Path) -> None:
    mentions = [{"start": 0, "end": 4}, {"start": 0, "end": 2}, {"start": 0, "end": 2}]
    path = file(tmp_path, "a.jsonl", json.dumps({"text": "MS a", "mentions": mentions}))
    with pytest.raises(PelError, match="line 1: mentions overlap; set a spans key .--spans-key"):
        read(path)
    (doc,) = read(path, "all")
    assert [span.text for span in doc.spans["all"]] == ["MS a", "MS", "MS"]


TABLES = [("a.csv", ","), ("a.csv", "\t"), ("a.csv", ";"), ("a.tsv", "\t")]


@pytest.mark.parametrize("name, delimiter", TABLES)
def test_tables(tmp_path: Path, name: str, delimiter: str) -> None:
    long = "x" * 200_000  # more than Python's csv takes by itself
    rows = [["year", "text", "id"], ["1", '"MS,\t""x""\nhurts"', "a"], ["2", long, ""]]
    text = "\ufeff" + "\r\n".join(delimiter.join(row) for row in rows)
    first, second = read(file(tmp_path, name, text))
    assert (first.text, first.user_data["id"]) == ('MS,\t"x"\nhurts', "a")
    assert second.text == long
    assert not gives_mentions(first, None)


def test_bioc_passages_stand_at_their_offsets(tmp_path: Path) -> None:
    pieces = "<location offset='3' length='2'/><location offset='8' length='2'/><text>h RA</text>"
    annotations = ANNOTATION.format(8, 2, "RA") + f"<annotation id='1'>{pieces}</annotation>"
    sentences = (
        "<passage><offset>12</offset>"
        f"<text/><sentence><offset>12</offset><text>One.</text>{ANNOTATION.format(12, 3, 'One')}"
        "</sentence><sentence><offset>18</offset><text>Two&#13;</text></sentence></passage>"
    )
    passage = PASSAGE.format(3, "hïgh RA.", annotations)
    (doc,) = read(file(tmp_path, "a.xml", bioc(passage, sentences)), "k")
    assert doc.text == "   hïgh RA. One.  Two\r"
    # A mention in pieces is taken whole.
    assert bounds(doc, "k") == [(3, 10, "MENTION"), (8, 10, "D"), (12, 15, "D")]
    assert doc.user_data["passages"] == [[3, 11, {"type": "title"}], [12, 22, {}]]


FLU = "1|t|Flu\n1|a|bad\n"
# A third line behind these two, and what is said of it.
BAD_LINES = [
    ("1\t4\t8\tbad\tD\tC1", ".*4-8 is not in the 7 char.*; correct"),
    ("1\t3\t6\tbad\tD\tC1", ".*'bad' but the .* has ' ba' at 3-6; co"),
    ("1\t0\t3\tFlu\t\tC1", ".*no type; write one in the fifth column"),
    ("1\t0\t3\tFlu\tD", "malformed line of 5 columns.*; write PMID"),
    ("1\t0\tx\tFlu\tD\tC1", "malformed offset 'x'; columns 2 and 3"),
    ("2\t0\t3\tFlu\tD\tC1", "line of document 2 inside document 1; m"),
    ("1|t|Flu", r"second \|t\| line of document 1; remove it"),
]
BAD = [
    ("a.jsonl", "[" * 100_000, "line 1: bad JSON"),
    ("a.jsonl", b'\n{"text": "\xff"}', "line 2: not UTF-8"),
    ("a.jsonl", '{"text": "x\\uD83D"}', r"line 1: '.ud83d' is half of a character"),
    ("a.jsonl", "{}", "'text' is missing or not a string"),
    ("a.jsonl", '{"text": "MS", "id": [1]}', "'id' is not a string or an integer"),
    ("a.jsonl", '{"text": "MS", "mentions": [1]}', "the mention 1 is not an object"),
    ("a.jsonl", '{"text": "MS", "mentions": [{"start": 0}]}', "lacks an integer 'start' or 'end'"),
    ("a.jsonl", '{"text": "MS", "mentions": [{"start": 0, "end": 3}]}', "0-3 is not in the 2 ch"),
    ("a.json", '[{"text": "x"}', "bad JSON .* after document 1; correct it"),
    ("a.json", "3", "document 1: not a JSON object; give documents"),
    ("a.json", '{"passages": [{"text": "x"}]}', "1: not BioC .*'offset'"),
    ("a.txt", b"a\n\xff\n", "line 2: not UTF-8"),
    ("a.csv", "id,body\n1,MS\n", "no column 'text' in line 1, which names: id, body; name the"),
    ("a.csv", "text,id\nMS\n", "line 2: the row does not have the 2 columns of line 1"),
    ("a.csv", 'text\nfine\n"a\n', "line 3: unexpected end of data"),
    ("a.xml", "<collection/>", "no document in it"),
    ("a.xml", bioc(PASSAGE.format("x", "MS", "")), "an offset or a length is 'x', no whole number"),
    ("a.xml", bioc(PASSAGE.format(10**12, "MS", "")), "a passage at 1000000000000, but the text"),
    ("a.xml", bioc(PASSAGE.format(0, "MS", "") * 2), "document 1: a passage at 0, but the text"),
    ("a.xml", bioc(PASSAGE.format(0, "é MS.", ANNOTATION.format(3, 2, "MS"))), "the mention reads"),
    ("a.xml", bioc(PASSAGE.format(0, "MS", "<annotation/>")), "annotation None has no location"),
    ("a.spacy", "text", "not a DocBin"),
    *(("a.pubtator", f"{FLU}{line}\n", f"line 3: {fault}") for line, fault in BAD_LINES),
    ("a.pubtator", "1\t0\t3\tFlu\tD\tC1\n" + FLU, "line 1: mention before its .*; put the 'PMID"),
    ("a.pubtator", '{"text": "Flu"}\n', "line 1: .*not PubTator"),
    ("a.pubtator", b"1|t|Flu\n1|a|b\xe4d\n", "line 2: not UTF-8; convert it to UTF-8"),
    ("a.pubtator", f"\n\n\n{FLU}\n\n2|t|x\n2\t0\t1\tFlu\tD\tC1\n", "line 9: .*reads 'Flu'"),
]


@pytest.mark.parametrize("name, text, message", BAD)
def test_a_bad_document_is_named(tmp_path: Path, name: str, text, message: str) -> None:
    path = file(tmp_path, name, text)
    with pytest.raises(PelError, match=f"{path}.*{message}") as caught:
        read(path)
    assert "\n" not in str(caught.value)


# A good mention and a bad one in each format that has mentions, and what is said of the bad one.
TWO = ANNOTATION.format(0, 3, "Flu") + ANNOTATION.format(3, 3, "bad")
RECORD = {"text": "Flu", "mentions": [{"start": 0, "end": 3, "label": "D"}, {"start": 1, "end": 9}]}
HALF_BAD = [
    ("a.pubtator", FLU + "1\t0\t3\tFlu\tD\tC1\n1\t4\t8\tbad\tD\tC1\n", "line 4: .*4-8 is not in"),
    ("a.xml", bioc(PASSAGE.format(0, "Flu bad", TWO)), "document 1: .*reads 'bad'"),
    ("a.jsonl", json.dumps(RECORD), "line 1: .*1-9 is not in"),
]


@pytest.mark.parametrize("name, text, message", HALF_BAD)
def test_a_bad_mention_does_not_cost_the_others(tmp_path, name, text, message) -> None:
    (raw,) = open_documents(str(file(tmp_path, name, text)))
    left_out: list[str] = []
    assert bounds(raw.doc(NLP, None, left_out), None) == [(0, 3, "D")]
    assert len(left_out) == 1 and re.search(f"{name}, {message}", left_out[0])
    with pytest.raises(PelError, match=f"{name}, {message}"):  # a corpus is not read in part
        list(open_corpus(tmp_path / name).documents())


TSV = [
    ('id\ttext\n1\t"Fever\n2\tcough\n3\tpain"\n', ['"Fever', "cough", 'pain"']),
    ('id\ttext\n1\t"Flu" noted\n2\t5" nail\n', ['"Flu" noted', '5" nail']),
    ('id\ttext\n1\t"open\n2\tx\n', ['"open', "x"]),
    ('id\ttext\n1\t"a ""b""\n\nc\td"\n2\t"x"\n', ['a "b"\n\nc\td', "x"]),  # of pandas and R
]


@pytest.mark.parametrize("text, texts", TSV)
def test_quotes_merge_no_rows_of_a_table_with_tabs(tmp_path, text, texts) -> None:
    assert [doc.text for doc in read(file(tmp_path, "a.tsv", text))] == texts


def many_passages(n: int) -> Document:
    """A document of many passages, and one passage with many mentions."""
    passages = [{"offset": 2 * i, "text": "x"} for i in range(n)]
    last = {"offset": 2 * n, "text": "x " * n}
    document = document_of_bioc({"id": "7", "passages": [*passages, last]})
    assert len(document.passages) == n + 1
    places = range(2 * n, 4 * n, 2)
    mentions = tuple(mention_at(document.text, start, start + 1) for start in places)
    return document._replace(mentions=mentions)


def test_many_passages_are_read_and_written_in_time() -> None:
    output = format_named("bioc").output

    def made(n: int) -> Doc:
        return make_doc(NLP, many_passages(n), None)

    assert output.text(0, made(2), None).count("<annotation") == 2
    assert_linear(many_passages, int, 2_000)
    assert_linear(lambda doc: output.text(0, doc, None), made, 500)


MENTION = {"text": "RA", "infons": {"identifier": "D1"}, "locations": [{"offset": 9, "length": 2}]}
SENTENCE = {"offset": 9, "text": "RA too.", "annotations": [MENTION]}


@pytest.mark.parametrize("text", ["", None])
def test_passages_in_sentences_as_the_library_bioc_writes_them(tmp_path: Path, text) -> None:
    """In JSON they have an empty text beside their sentences."""
    passages = [{"offset": 0, "text": "MS hurts", "sentences": []}]
    passages += [{"offset": 9, "text": text, "sentences": [SENTENCE], "annotations": []}]
    documents = {"documents": [{"id": "d", "passages": passages}]}
    path = file(tmp_path, "a.bioc.json", json.dumps(documents))
    (document,) = (raw.document() for raw in open_documents(str(path)))
    assert document.text == "MS hurts RA too."
    assert document.mentions == ((9, 11, "RA", "", ("D1",)),)


HEAD = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE PubmedArticleSet PUBLIC '
    '"-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n<PubmedArticleSet>'
)
CITATION = (
    '<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">{}</PMID><Article>'
    "<ArticleTitle>{}</ArticleTitle>{}</Article></MedlineCitation>"
    "<PubmedData><ArticleIdList><ArticleId>x</ArticleId></ArticleIdList></PubmedData></PubmedArticle>"
)
ABSTRACT = (
    '<Abstract><AbstractText Label="METHODS">We gave <i>E. coli</i>\n Ca<sup>2+</sup>.</AbstractText>'
    "<AbstractText/><AbstractText>It grew.</AbstractText>"
    "<CopyrightInformation>(c)</CopyrightInformation></Abstract>"
)


def test_title_and_sections_are_passages(tmp_path: Path) -> None:
    path = tmp_path / "pubmed25n0001.xml.gz"
    deleted = "<DeleteCitation><PMID>3</PMID></DeleteCitation>"
    citations = CITATION.format(1, "On <b>growth</b>.", ABSTRACT) + CITATION.format(2, "Alone", "")
    path.write_bytes(gzip.compress(f"{HEAD}{citations}{deleted}</PubmedArticleSet>".encode()))
    first, second = (raw.document() for raw in open_documents(str(path)))
    assert (first.id, first.mentions) == ("1", None)
    assert first.text == "On growth. We gave E. coli Ca2+. It grew."
    texts = [first.text[p.start : p.end] for p in first.passages]
    assert texts == ["On growth.", "We gave E. coli Ca2+.", "It grew."]
    assert first.passages[1].infons == {"type": "abstract", "label": "METHODS"}
    assert (second.id, second.text) == ("2", "Alone")
