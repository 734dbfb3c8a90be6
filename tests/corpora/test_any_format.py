import gzip
import json
from pathlib import Path

import duckdb
import pytest
from spacy.tokens import Doc

from spacy_pel.corpora import Document, open_documents
from spacy_pel.corpora.document import mention_at
from spacy_pel.corpora.document_corpus import make_document_corpus, open_corpus
from spacy_pel.corpora.formats import lookup as formats
from spacy_pel.corpora.formats.base import Format, Input, filled_lines
from spacy_pel.errors import PelError
from spacy_pel.spans import gold_ids, mention_spans

from .formats.examples import KEY, NLP, linked, read, written

TEXT = "MS hurts"
JSONL = {"text": TEXT, "id": "d", "mentions": [{"start": 0, "end": 2, "label": "D", "id": "A|B"}]}
ANNOTATION = {
    **{"infons": {"type": "D", "identifier": "MESH:A|B"}, "text": "MS"},
    "locations": [{"offset": 0, "length": 2}],
}
PASSAGE = {"offset": 0, "infons": {"type": "title"}, "text": TEXT, "annotations": [ANNOTATION]}
BIOC = {"documents": [{"id": "d", "passages": [PASSAGE]}]}
# What is written in other formats is read back in tests/documents.
FILES = {
    "a.jsonl": json.dumps(JSONL),
    "a.pubtator": "d|t|MS hurts\nd\t0\t2\tMS\tD\tUMLS:A|B\n",
    "a.bioc.json": json.dumps(BIOC),
    "answer_of_the_api.json": json.dumps({"documents": [JSONL]}),
}


def mentions(docs: list[Doc], key: str | None = KEY) -> list[tuple]:
    """Of each doc its mentions: where they are, their labels and gold ids."""
    spans = (mention_spans(doc, key) for doc in docs)
    return [sorted((s.start_char, s.end_char, s.label_, gold_ids(s)) for s in o) for o in spans]


@pytest.mark.parametrize("name", FILES)
def test_where_ids_stand(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf8")
    (document,) = open_corpus(tmp_path / name).documents()
    assert (document.id, document.text) == ("d", TEXT)
    assert document.mentions == (mention_at(TEXT, 0, 2, "D", ("A", "B")),)
    (example,) = make_document_corpus(tmp_path / name)(NLP)
    assert mentions([example.reference], None) == [[(0, 2, "D", ("A", "B"))]]
    (doc,) = read(tmp_path / name)
    assert mentions([doc], None) == [[(0, 2, "D", ())]]  # to link it, its ids are not told


def test_the_id_of_a_mention_in_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    expected = {None: (), "": (), "NIL": (), 7: ("7",), "A": ("A",)}
    records = [{"text": TEXT, "mentions": [{"start": 0, "end": 2, "id": id}]} for id in expected]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf8")
    assert [d.mentions[0].ids for d in open_corpus(path).documents()] == list(expected.values())
    path.write_text('{"text": "MS", "mentions": [{"start": 0, "end": 2, "id": ["A"]}]}')
    with pytest.raises(PelError, match="line 1: 'id' of the mention .* is not a string; join"):
        list(open_corpus(path).documents())


def test_the_entities_of_a_docbin_where_it_lacks_the_group(tmp_path: Path) -> None:
    doc = linked(TEXT, (0, 2, "D"))
    doc.ents = list(doc.spans.pop(KEY))
    path = written([doc], tmp_path / "a.spacy", "docbin")
    for key in (None, KEY):
        (example,) = open_corpus(path, spans_key=key)(NLP)
        assert mentions([example.reference], key) == [[(0, 2, "D", ("E0",))]]


def test_parquet_has_a_document_a_row(tmp_path: Path) -> None:
    path, zipped, lines = (tmp_path / f"a.{end}" for end in ("parquet", "parquet.gz", "jsonl"))
    rows = [JSONL, {"text": "x"}, {"text": "y", "mentions": []}]
    lines.write_text("\n".join(map(json.dumps, rows)))
    duckdb.sql(f"COPY (SELECT * FROM '{lines}') TO '{path}' (FORMAT parquet)")
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    expected = [raw.document() for raw in open_documents(str(lines))]
    for source in (path, zipped):
        found = list(open_documents(str(source)))
        assert [raw.document() for raw in found] == expected
        assert [raw.where for raw in found] == [f"{source}, row {number}" for number in (1, 2, 3)]


def test_parquet_without_documents(tmp_path: Path) -> None:
    path = written([linked(TEXT, (0, 2))], tmp_path / "a.parquet", "parquet")
    with pytest.raises(
        PelError, match="a.parquet: the table has one mention per row.*; link to JSONL, BioC"
    ):
        list(open_corpus(path).documents())
    duckdb.sql(f"COPY (SELECT 1 AS body) TO '{path}' (FORMAT parquet)")
    with pytest.raises(PelError, match="no column 'text', but: body; name the column"):
        list(open_corpus(path).documents())
    path.write_text("nonsense")
    with pytest.raises(PelError, match="not Parquet, or damaged .*; write it again"):
        list(open_corpus(path).documents())


def _toy_document(line: bytes) -> Document:
    word, _, id = line.decode().partition("=")
    return Document(word, None, (mention_at(word, 0, len(word), "", (id,)),))


def test_a_new_format_is_a_module_and_a_line(tmp_path: Path, monkeypatch) -> None:
    """The format ``word=ID``: read to be linked, and trained on."""
    toy = Format("toy", (".toy",), Input(filled_lines, _toy_document, has_ids=True))
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, toy))
    (tmp_path / "a.toy").write_text("MS=C1\n\nRA=C2\n=C3\n")
    examples = open_corpus(tmp_path / "a.toy", limit=2)(NLP)
    expected = [[(0, 2, "MENTION", ("C1",))], [(0, 2, "MENTION", ("C2",))]]
    assert mentions([example.reference for example in examples], None) == expected
    with pytest.raises(PelError, match="a.toy, line 4: the mention 0-0 is not in the 0 char"):
        read(tmp_path / "a.toy")
