import csv
import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_pel.corpora.document import Passage
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.corpora.formats.lookup import FORMATS
from spacy_pel.corpora.formats.tables import COLUMNS

from ...conftest import records
from .examples import KEY, QUICK, annotated, docs, linked, read, written


def xml_text(text: str) -> str:
    """The text with what XML cannot hold replaced, character by character."""
    return re.sub("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", text)


def one_line(text: str) -> str:
    return text.translate({ord(c): " " for c in "\r\n\t"})


@pytest.mark.parametrize(
    "format, suffix, seen",
    [
        ("jsonl", ".jsonl", str),
        ("prodigy", ".prodigy.jsonl", str),
        ("docbin", ".spacy", str),
        ("bioc", ".xml", xml_text),
        ("pubtator", ".pubtator", one_line),
    ],
)
@QUICK
@given(made=st.lists(docs(), min_size=1, max_size=3))
def test_round_trips(tmp_path: Path, format: str, suffix: str, seen, made: list[Doc]) -> None:
    path = written(made, tmp_path / f"file{suffix}", format)
    again = read(path, KEY)
    documents = open_corpus(path, spans_key=KEY).documents()
    assert [annotated(document) for document in documents] == [annotated(doc) for doc in made]
    assert [doc.text for doc in again] == [seen(doc.text) for doc in made]
    for number, (doc, before) in enumerate(zip(again, made), start=1):
        id = before.user_data.get("id")
        if format in ("jsonl", "prodigy", "docbin"):
            assert doc.user_data.get("id") == id
        else:
            assert doc.user_data["id"] == (id or str(number))
        if format in ("bioc", "docbin") and "passages" in before.user_data:
            assert [list(p) for p in doc.user_data["passages"]] == before.user_data["passages"]


@settings(QUICK, max_examples=15)  # DuckDB takes its time to start
@given(made=st.lists(docs(), max_size=3))
def test_tables_say_what_jsonl_says(tmp_path: Path, made: list[Doc]) -> None:
    written_records = records(written(made, tmp_path / "f.jsonl", "jsonl"))
    expected = [
        [str(record.get("id", number)), *(mention[column] for column in COLUMNS[1:])]
        for number, record in enumerate(written_records, start=1)
        for mention in record["mentions"]
    ]
    for format, delimiter in (("csv", ","), ("tsv", "\t")):
        with written(made, tmp_path / "f", format).open(newline="", encoding="utf8") as file:
            header, *rows = csv.reader(file, delimiter=delimiter)
        assert tuple(header) == COLUMNS
        assert rows == [list(map(_cell, row)) for row in expected]
    path = written(made, tmp_path / "f.parquet", "parquet")
    columns = ", ".join(f'"{column}"' for column in COLUMNS)
    assert list(map(list, duckdb.sql(f"SELECT {columns} FROM '{path}'").fetchall())) == expected
    candidates = duckdb.sql(f"SELECT candidates FROM '{path}'").fetchall()
    expected = {"id": "E0", "name": 'a "name"\t,', "score": 0.5}
    unset = ("rerank_score", "probability", "correction", "as_in", "matched_name", "why")
    assert all(row == ([{**expected, **dict.fromkeys(unset)}],) for row in candidates)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return "|".join(value)
    return "" if value is None else str(value)


CODES = {"ICD10CM": ["G35", "G36"], "S,NO": []}


def test_codes_have_columns_of_their_own(tmp_path: Path) -> None:
    made = [linked("MS, RA, x", (0, 2), (4, 6), (8, 9), codes=CODES), linked("MS", (0, 2))]
    jsonl = written(made, tmp_path / "f.jsonl", "jsonl", vocabularies=list(CODES))
    found = [m.get("xrefs") for record in records(jsonl) for m in record["mentions"]]
    assert found == [CODES, CODES, {}, None]
    for format, delimiter in (("csv", ","), ("tsv", "\t")):
        path = written(made, tmp_path / "f", format, vocabularies=list(CODES))
        with path.open(newline="", encoding="utf8") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
        assert list(rows[0]) == [*COLUMNS, "ICD10CM", "S,NO"]
        assert [row["ICD10CM"] for row in rows] == ["G35|G36", "G35|G36", "", ""]
        assert [row["types"] for row in rows][1:3] == ['Disease|a "type",', ""]
    for some, expected in ((made, [["G35", "G36"], ["G35", "G36"], None, None]), ([], [])):
        path = written(some, tmp_path / "f.parquet", "parquet", vocabularies=list(CODES))
        rows = duckdb.sql(f"SELECT ICD10CM FROM '{path}'").fetchall()
        assert rows == [(codes,) for codes in expected]


@pytest.mark.parametrize("format", [format for format in FORMATS if format.output])
def test_parts_decide_every_byte(tmp_path: Path, format) -> None:
    made = [linked("MS and RA", (0, 2)), linked("RA", (0, 2))]
    one = written(made, tmp_path / "one", format.name).read_bytes()
    assert written(made, tmp_path / "two", format.name).read_bytes() == one
    assert written([], tmp_path / "none", format.name).exists()


def test_pubtator_has_title_abstract_and_ids(tmp_path: Path) -> None:
    passages = [Passage(0, 2, {"type": "title"}), Passage(3, 8, {"type": "abstract"})]
    mentions = ((0, 2, "D\tx"), (3, 5), (3, 7))
    doc = linked("MS\nis x\ty", *mentions, id="a|b", passages=passages)
    path = written([doc], tmp_path / "f.pubtator", "pubtator")
    assert path.read_text() == (
        "a_b|t|MS\na_b|a|is x y\n"
        "a_b\t0\t2\tMS\tD x\tE0\na_b\t3\t5\tis\tMENTION\tE1\na_b\t3\t7\tis x\tMENTION\t-1\n\n"
    )
    (document,) = open_corpus(path).documents()
    assert document.passages[0] == (0, 2, {"type": "title"})
    assert [mention.ids for mention in document.mentions] == [("E0",), ("E1",), ()]
