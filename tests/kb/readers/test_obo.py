from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import ReadOptions, open_source
from spacy_pel.kb.readers.obo import read_obo

OBO = r"""format-version: 1.2
data-version: releases/2016-03-04
default-namespace: disease_ontology

[Term]
id: D:2
name: flu
namespace: infections
alt_id: D:20
alt_id: D:21
def: "A \"viral\" disease\, of the lung." [url:http\://x, PMID:1]
synonym: "influenza" EXACT []
synonym: "grippe " RELATED ABBREVIATION [X:1] {source="y"}
xref: UMLS_CUI:C0021400 "Influenza" {source="MONDO"}
xref: UMLS_CUI:C0021400
xref: Wikipedia:Flu_(disease)
is_a: D:1 {source="x"} ! disease
is_a: D:3
intersection_of: D:1 ! disease
property_value: http://x "y" xsd:string

[Term]
id: D:1
name: disease
is_obsolete: false

[Term]
id: D:5
name: old flu
is_obsolete: true
replaced_by: D:6

[Term]
id: D:6
name: flu before
is_obsolete: true
replaced_by: D:2

[Term]
id: D:7
is_obsolete: true
name: split
replaced_by: D:1
replaced_by: D:2

[Term]
id: D:8
name: of a cycle
is_obsolete: true
replaced_by: D:8

[Typedef]
id: part_of
name: part of
"""


def write(folder: Path, text: str, name: str = "x.obo") -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def read(path: Path) -> list[Entity]:
    return list(read_obo(path, ReadOptions()).entities)


@pytest.mark.parametrize("name", ["x.obo", "x.obo.gz"])
def test_reads_the_terms(tmp_path: Path, name: str) -> None:
    source = open_source(write(tmp_path, OBO, name))
    assert source.version == "releases/2016-03-04"
    assert list(source.entities) == [
        Entity("D:1", "disease", types=("disease_ontology",), sources=("D",)),
        Entity(
            "D:2",
            "flu",
            ("influenza", "grippe"),
            ("infections",),
            'A "viral" disease, of the lung.',
            ("D:20", "D:21"),
            ("D:1", "D:3"),
            ("D:5", "D:6"),
            ("UMLS_CUI:C0021400", "Wikipedia:Flu_(disease)"),
            ("D",),
        ),
    ]


def test_frames_of_one_id_and_files_in_a_row_are_joined(tmp_path: Path) -> None:
    again = 'format-version: 1.2\n\n[Term]\nid: D:1\nname: disease\ndef: "Bad." []\n'
    first, *_ = read(write(tmp_path, OBO + again))
    assert (first.canonical_name, first.aliases, first.definition) == ("disease", (), "Bad.")


def test_what_breaks_the_grammar(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = (
        "[Term]\nid: D:1\nname: a\n"
        'def: "A text." [JA:Two Words, url:http\\://x]\n'
        'synonym: "b" BROAD [ISBN 3 [x\\]]\n'
        "xref: http://x.org/Category\\:Y\n"
        "xref: MSH:D1\n\n[Term]\nid: D:2\n"
    )
    with caplog.at_level(logging.WARNING):
        [entity] = read(write(tmp_path, text))
    assert (entity.definition, entity.aliases, entity.xrefs) == ("A text.", ("b",), ("MSH:D1",))
    assert "left out 1 clauses that break the OBO grammar, the first in line 6" in caplog.text
    assert "skipped 1 terms without a name" in caplog.text


@pytest.mark.parametrize(
    "term, line",
    [
        ("name: a", 2),
        ("id: D 1\nname: a", 2),
        ("id: D:1\nname: ", 3),
        ("name: a\nid: D:1", 2),
        ("id: D:1\nid: D:2\nname: a", 3),
    ],
)
def test_a_term_that_cannot_be_parsed_is_named(tmp_path: Path, term: str, line: int) -> None:
    with pytest.raises(PelError, match=rf"x\.obo, line {line}: cannot be parsed as OBO") as caught:
        read(write(tmp_path, f"[Term]\n{term}\n"))
    assert "\n" not in str(caught.value)


def test_a_text_out_of_proportion_is_named(tmp_path: Path) -> None:
    text = f"[Term]\nid: D:1\nname: a\n\n[Term]\nid: D:2\nname: {'b' * 1_000_001}\n"
    with pytest.raises(PelError, match=r"x\.obo, line 6: a text of the entity 'D:2' has 1,000,001"):
        read(write(tmp_path, text))


def test_cycles_of_parents_are_only_ids(tmp_path: Path) -> None:
    text = "[Term]\nid: D:1\nname: a\nis_a: D:2\n\n[Term]\nid: D:2\nname: b\nis_a: D:1\n"
    assert [entity.parents for entity in read(write(tmp_path, text))] == [("D:2",), ("D:1",)]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, OBO, "x.obo.gz")
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(PelError, match=r"x\.obo\.gz: damaged gzip"):
        read(path)


def test_clauses_that_cannot_be_parsed_leave_the_others(tmp_path: Path, caplog) -> None:
    term = '[Term]\nid: X:1\nname: x\nsynonym: "a" EXACT [\nxref: A:1 {\nsynonym: "b\nis_a: X:2\n'
    path = tmp_path / "x.obo"
    path.write_text(term, encoding="utf8")
    assert list(open_source(path).entities) == [
        Entity("X:1", "x", ("a",), parents=("X:2",), sources=("X",))
    ]
    assert "left out 2 clauses that break the OBO grammar, the first in line 5: xref" in caplog.text
    path.write_text(term + "name: {\n", encoding="utf8")
    with pytest.raises(PelError, match="x.obo, line 8: cannot be parsed as OBO: 'name: {'"):
        list(open_source(path).entities)
    path.write_text(term.replace("id: X:1", "is_a: X:1"), encoding="utf8")
    with pytest.raises(PelError, match="x.obo, line 2: cannot be parsed as OBO: 'is_a: X:1'"):
        list(open_source(path).entities)
