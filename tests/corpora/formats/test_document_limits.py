"""Small files that unpack to far more than a document may hold: refused in little memory."""

import gzip
import json
import re
import sys
import tracemalloc
from pathlib import Path

import duckdb
import pytest

from spacy_pel.corpora import open_documents
from spacy_pel.corpora.formats import base as format
from spacy_pel.corpora.formats import bioc, json_formats, pubtator, tables
from spacy_pel.errors import PelError
from spacy_pel.io import lines, xml_elements

from .examples import NLP

MEGABYTE = 2**20
SMALL = 2**16  # bytes that a document may have in these tests


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of the limits; what is refused must not take more than a few of them."""
    for limit, value, *modules in (
        ("MAX_DOCUMENT_BYTES", SMALL, bioc, format, tables),
        ("_MAX_LINES", 1_000, pubtator),
        ("MAX_JSON_VALUES", 10_000, json_formats, lines),
        ("MAX_ELEMENTS", 1_000, xml_elements),
    ):
        for module in modules:
            monkeypatch.setattr(module, limit, value)


def faults(path: Path) -> str:
    """What is said of a file that is read in 8 MB."""
    messages = []
    tracemalloc.start()
    for raw in open_documents(str(path)):
        try:
            raw.document()
        except PelError as error:
            messages.append(str(error))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MEGABYTE
    return "\n".join(messages)


TOO_MANY = "of more than 10,000 values"
NO_END = "no end of a document in 65,536 bytes, and the rest"


@pytest.mark.parametrize(
    "name, head, rest, message",
    [
        ("a.xml.gz", b"<x><y>", b"a", "no end of a (record|document) in 65,536 bytes"),
        ("a.json.gz", b'{"documents": ["', b"a", NO_END),
        ("a.csv.gz", b'text\n"', b'","\n', NO_END),
        ("a.jsonl.gz", b"", b"a", NO_END),
        ("a.pubtator.gz", b"1|t|MS\n", b"1\t0\t2\tMS\tD\t-\n", NO_END),
    ],
)
def test_a_gzip_that_would_fill_the_memory(tmp_path, name, head, rest, message) -> None:
    block = rest * (MEGABYTE // len(rest))
    with gzip.open(tmp_path / name, "wb", 1) as file:
        file.write(head)
        for _ in range(1 if "pubtator" in name else 100):
            file.write(block)
    assert re.search(message, faults(tmp_path / name))


DEEP = "JSON of more than 100 levels"
ELEMENTS = "a record of more than 1,000 elements or 100 levels; split the record"


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.json", "[" * 60_000, DEEP),
        ("a.json", '[{"a":"' + "[{" * 90 + r"\"[\\" + '","b":' + "[" * 60_000, DEEP),
        ("a.bioc.json", '{"documents": [{"passages": ' * 2_000, DEEP),
        ("a.json", '[{"text": "x", "m": [' + "{}," * 10_000 + "{}]}]", TOO_MANY),
        ("a.jsonl", '{"text": "x", "m": [' + "{}," * 10_000 + "{}]}", TOO_MANY),
        ("a.xml", "<x><document>" + "<passage/>" * 1_001, ELEMENTS),
        ("a.xml", "<x>" + "<document>" * 101, ELEMENTS),
    ],
)
def test_values_that_would_fill_the_memory(tmp_path, name, text, message) -> None:
    (tmp_path / name).write_text(text)
    assert message in faults(tmp_path / name)


def test_brackets_in_a_string_are_no_levels(tmp_path: Path) -> None:
    text = '[{"' * 500 + "\\"
    (tmp_path / "a.json").write_text(json.dumps([{"text": text}]))
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    for name in ("a.json", "a.jsonl"):
        (raw,) = open_documents(str(tmp_path / name))
        assert raw.document().text == text


def test_a_parquet_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = "SELECT repeat('a', if(i = 2, 99000000, 9)) AS text FROM range(4) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    assert path.stat().st_size < SMALL
    message = "a.parquet: row 3 has 99,000,000 bytes, more than 65,536 after row 2; split it"
    assert message in faults(path)


def test_too_many_mentions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["spacy_pel.corpora.open_documents"]  # the package has the function
    monkeypatch.setattr(module, "MAX_MENTIONS", 100)
    rows = [f"1\t{i}\t{i + 1}\tx\tD\t-" for i in range(101)]
    (tmp_path / "a.pubtator").write_text("\n".join(["1|t|" + "x" * 101, *rows]))
    mentions = [{"start": i, "end": i + 1} for i in range(101)]
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x" * 101, "mentions": mentions}))
    for name in ("a.pubtator", "a.jsonl"):
        (raw,) = open_documents(str(tmp_path / name))
        for made in (raw.document, lambda: raw.doc(NLP, None)):
            with pytest.raises(PelError, match=f"{name}, line 1: more than 100 mentions in a"):
                made()
