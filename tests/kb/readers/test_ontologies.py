"""Ontologies in OBO."""

import gzip
import logging
from pathlib import Path

import pytest

from spacy_pel.kb import Entity
from spacy_pel.kb.change import united
from spacy_pel.kb.readers import detected_format, open_source

TERMS = r"""format-version: 1.2
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

"""
OBSOLETE = {"D:5": ["D:6"], "D:6": ["D:2"], "D:20": ["D:2"], "D:7": ["D:1", "D:2"], "D:8": ["D:8"]}
for id, others in OBSOLETE.items():
    lines = [f"id: {id}", "name: old", "is_obsolete: true", *(f"replaced_by: {o}" for o in others)]
    TERMS += "\n".join(["[Term]", *lines, "\n"])
TERMS += "[Typedef]\nid: part_of\nname: part of\n"
DISEASE = Entity("D:1", "disease", types=("disease_ontology",), sources=("D",))
FLU = Entity(
    *("D:2", "flu", ("influenza", "grippe"), ("infections",), 'A "viral" disease, of the lung.'),
    *(("D:20", "D:21"), ("D:1", "D:3"), ("D:5", "D:6")),
    *(("UMLS_CUI:C0021400", "Wikipedia:Flu_(disease)"), ("D",)),
)


def written(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["x.obo", "x.obo.gz"])
def test_an_ontology(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, TERMS)
    assert detected_format(path) == "obo"
    source = open_source(path)
    assert source.version == "releases/2016-03-04"
    assert list(united(source.entities)) == [DISEASE, FLU]


def test_classes_with_one_id_and_files_in_a_row_are_joined(tmp_path: Path) -> None:
    again = 'format-version: 1.2\n\n[Term]\nid: D:1\nname: disease\ndef: "Bad." []\nis_a: D:1\n'
    path = written(tmp_path / "x.obo", TERMS + again)
    assert list(united(open_source(path).entities)) == [DISEASE._replace(definition="Bad."), FLU]


def test_what_stands_behind_a_value_does_not_matter(tmp_path: Path, caplog) -> None:
    text = (
        "[Term]\nid: D:1 ! a\nname: a\\! b {x} ! c\n"
        'def: "A\\n\\"text\\"." [JA:Two Words, url:http\\://x]\n'
        'synonym: "b" BROAD [ISBN 3 [x\\]]\nxref: http://x.org/Y\\:Z {\nsynonym: "c\n'
        "xref: MSH:D1\n\n[Term]\nid: D:2\n"
    )
    with caplog.at_level(logging.WARNING):
        [entity] = open_source(written(tmp_path / "x.obo", text)).entities
    assert entity[:3] == ("D:1", "a! b", ("b",)) and entity.definition == 'A "text".'
    assert entity.xrefs == ("http://x.org/Y:Z", "MSH:D1")
    assert "left out 1 clauses, the first in line 7: synonym" in caplog.text
    assert "skipped 1 classes without a name" in caplog.text
