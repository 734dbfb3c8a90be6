"""Sources that are damaged, or that somebody made to cost time or memory."""

import gzip
import json
import random
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.io import xml_elements
from spacy_pel.kb.readers import ontologies, open_source, tables
from spacy_pel.kb.readers.tables import read_mapping

from ...conftest import write_text
from ...growth import assert_linear
from .test_mesh import descriptor
from .test_ontologies import OWL
from .test_rrf import conso

TERM = "[Term]\nid: X:{}\nname: {}\n"
CSV = "concept_id,canonical_name\n"
FLIPS = 12
LIMIT = 2**16
NAMES = ["Feces", "Gout", "Multiple sclerosis", "Rash", "Disseminated sclerosis", "Mitral stenosis"]


@pytest.mark.parametrize(
    "name, head, row",
    [
        ("MRCONSO.RRF.gz", "", conso("C{}", "{}") + "\n"),
        ("x.csv.gz", CSV, "C{},{}\n"),
        ("x.obo.gz", "", TERM),
    ],
)
def test_a_flipped_bit_changes_no_entity(tmp_path: Path, name: str, head: str, row: str) -> None:
    rows = (row.format(*pair) for pair in enumerate(NAMES))
    path = write_text(tmp_path / name, head + "".join(rows))
    source = tmp_path if "RRF" in name else path
    whole = list(open_source(source).entities)
    assert [entity.canonical_name for entity in whole] == NAMES
    content = path.read_bytes()
    errors = 0
    for bit in random.Random(0).sample(range(8 * len(content)), FLIPS):
        place, flipped = bit // 8, bytes([content[bit // 8] ^ 1 << bit % 8])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        try:
            assert list(open_source(source).entities) == whole
        except PelError as error:
            errors += 1
            assert path.name in str(error)
            assert "damaged gzip" in str(error) or "obo" in name
    assert errors > FLIPS / 2
    path.write_bytes(content[:-1])
    with pytest.raises(PelError, match="damaged gzip"):
        list(open_source(source).entities)


EXACT = "subject_id\tpredicate_id\tobject_id\n"
MAPPINGS = "X:{0}\tskos:exactMatch\tX:{1}\nX:0\tskos:exactMatch\tY:{0}\n"  # chained


@pytest.mark.parametrize(
    "name, head, line, size",
    [
        ("columns.csv", CSV[:-1], ",c{0}", 2_000),
        ("frames of one id.obo", "", "[Term]\nid: X:1\nname: {0}\n", 500),
        ("broken references.obo", TERM.format(1, "x"), 'synonym: "s{0}" EXACT [\n', 1_000),
        (
            "chain.obo",
            "",
            "[Term]\nid: X:{0}\nname: x\nis_obsolete: true\nreplaced_by: X:{1}\n",
            500,
        ),
        ("chain.sssom.tsv", EXACT, MAPPINGS, 2_000),
    ],
)
def test_reading_is_linear(tmp_path: Path, name: str, head: str, line: str, size: int) -> None:
    def written(n: int) -> Path:
        lines = (line.format(i, i + 1) for i in range(n))
        return write_text(tmp_path / f"{n} {name}", head + "".join(lines))

    def read(path: Path) -> None:
        read_mapping([path]) if "sssom" in name else list(open_source(path).entities)

    assert_linear(read, written, size)


@pytest.mark.parametrize(
    "name, head, rest, message",
    [
        ("a.obo.gz", TERM.format(1, "x"), 'synonym: "x" EXACT []\n', "line 3124: a record of more"),
        ("a.xml.gz", "<A><DescriptorRecord>", "<a/>", "no end of a record in 65,536 bytes"),
        ("a.csv.gz", f'{CSV}"', 'a","\n', r"line \d+: a row of more than 65,536 characters"),
    ],
)
def test_a_record_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: str, rest: str, message: str
) -> None:
    monkeypatch.setattr(ontologies, "MAX_LINE_BYTES", LIMIT)
    monkeypatch.setattr(xml_elements.xml_elements, "__kwdefaults__", {"longest": LIMIT})
    monkeypatch.setattr("spacy_pel.io.lines.MAX_LINE_BYTES", LIMIT)
    monkeypatch.setattr(tables, "_MAX_ROW_SIZE", LIMIT)
    (tmp_path / name).write_bytes(gzip.compress((head + rest * 40_000).encode()))
    with pytest.raises(PelError, match=f"{name}.*({message})"):
        list(open_source(tmp_path / name).entities)


def jsonl(**fields: object) -> str:
    return json.dumps({"concept_id": "C1", "canonical_name": "Fever", **fields}) + "\n"


def descriptors(id: str, name: str) -> str:
    """MeSH in XML, of whose two records the second is this."""
    return f"<a>{descriptor('D1', 'a', [])}{descriptor(id, name, [])}</a>"


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("desc.xml", b"<a><b/>", "bad XML .*; fetch it again"),
        ("desc.xml", b'<?xml version="1.0" encoding="nonsense"?><a/>', "nonsense|unknown encoding"),
        ("x.owl", b"Prefix(:=<http://x>)", "not OWL in RDF/XML; convert it: robot convert"),
        ("x.owl", OWL[:-20].encode(), "bad XML .*; fetch it again"),
        ("x.owl", OWL.replace("X_2", "X_2" * 999).encode(), "class X.*characters"),
        ("x.jsonl", jsonl() + '{"concept_id": "C1"', "line 2: bad JSON"),
        ("x.jsonl", "[]", "line 1: not a JSON object"),
        ("x.jsonl", jsonl(concept_id=None), "line 1: 'concept_id' is missing, blank or no text"),
        ("x.jsonl", jsonl(canonical_name=" "), "line 1: 'canonical_name' is missing, blank"),
        ("x.jsonl", jsonl(concept_id="A\u0080"), "line 1: .* is blank or contains control char"),
        ("x.jsonl", jsonl(aliases="Pyrexia"), "line 1: 'aliases' is not a list of strings"),
        ("x.jsonl", jsonl(types=[1]), "line 1: 'types' is not a list of strings"),
        ("x.jsonl", jsonl(definition=["x"]), "line 1: 'definition' is not a string or null"),
        ("x.jsonl", jsonl(definition="x" * 1_000_001), "line 1: a text of .* has 1,000,001 char"),
        ("x.csv", "code,name\n", "no column concept_id; .*--column concept_id=COLUMN .*code, name"),
        ("x.csv", "concept_id,a,a\n", "line 1: two columns"),
        ("x.csv", f"{CSV}C1, \n", "line 2: no id or no name"),
        ("x.csv", f"{CSV}C1,x\nC2,y,z\n", "line 3: 3 cells, but"),
        ("x.csv", f'{CSV}C1,"x\n', "line 2: unexpected end of data"),
        ("x.parquet", b"PAR1 not parquet", "x.parquet"),
        ("x.csv", b"concept_id,canonical_name\nC1,\xff\n", "line 2: not UTF-8"),
        ("x.obo", "[Term]\nid: D:1\nname: \n", "line 3: cannot be parsed as OBO"),
        ("x.obo", "[Term]\nid: D:1\nid: D:2\nname: a\n", "line 3: cannot be parsed as OBO"),
        ("desc.xml", descriptors("", "A name"), "record 2: .*'A name'"),
        ("desc.xml", descriptors("D\u0080", "b"), "record 2: .*'b' .*control"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, name: str, data: bytes | str, message: str) -> None:
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(PelError, match=f"{name}.*({message})") as caught:
        list(open_source(tmp_path / name).entities)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 4_000
