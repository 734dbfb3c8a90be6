"""One ontology in OWL and in OBO Graph JSON, and what is wrong with files of these formats."""

from __future__ import annotations

import gzip
import json
import logging
import tracemalloc
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import detected_format, open_source
from spacy_pel.kb.readers.owl import curie

from .ontologies import CLASSES, ENTITIES, GRAPH, HEAD, OBO, OWL


def written(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def graphs(*graphs: dict) -> str:
    return json.dumps({"graphs": list(graphs)})


@pytest.mark.parametrize(
    "name, text, format",
    [
        ("x.json", graphs(GRAPH), "obo-graph"),
        ("x.json.gz", graphs(GRAPH), "obo-graph"),
        ("x.owl", OWL, "owl"),
        ("x.owl.gz", OWL, "owl"),
    ],
)
def test_an_ontology(tmp_path: Path, name: str, text: str, format: str, caplog) -> None:
    path = written(tmp_path / name, text)
    assert detected_format(path) == format
    source = open_source(path)
    assert source.version == f"{OBO}x/2026/x.owl"
    with caplog.at_level(logging.WARNING):
        assert list(source.entities) == ENTITIES
    assert "skipped 1 classes without a name" in caplog.text


@pytest.mark.parametrize(
    "iri, short",
    [
        (f"{OBO}MONDO_0005301", "MONDO:0005301"),
        ("http://www.orpha.net/ORDO/Orphanet_558", "Orphanet:558"),
        ("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#C3243", "C3243"),
        ("http://snomed.info/id/24700007", "24700007"),
        ("#C3243", "C3243"),
        ("UMLS:C0026769", "UMLS:C0026769"),
        ("ICD10CM:S72.001/A", "ICD10CM:S72.001/A"),
        ("http://example.org/", "http://example.org/"),
        ("", ""),
    ],
)
def test_an_iri_is_written_as_obo_writes_it(iri: str, short: str) -> None:
    assert curie(iri) == short


def test_graphs_of_one_file_are_joined(tmp_path: Path) -> None:
    more = {"nodes": [{"id": f"{OBO}X_1", "lbl": "demyelinating disease", "meta": {}}]}
    path = written(tmp_path / "x.json", graphs(GRAPH, more, {}))
    assert list(open_source(path).entities) == ENTITIES


def test_texts_of_other_languages_count_where_there_is_no_english_one(tmp_path: Path) -> None:
    text = """<owl:Class rdf:about="#A"><skos:prefLabel xml:lang="de">Gicht</skos:prefLabel>
    <skos:altLabel xml:lang="de">Zipperlein</skos:altLabel></owl:Class>
    <owl:Class rdf:ID="B"><skos:altLabel>b</skos:altLabel><skos:prefLabel>B</skos:prefLabel>
    <rdfs:label>name</rdfs:label></owl:Class>"""
    path = written(tmp_path / "x.owl", f"{HEAD}{text}</rdf:RDF>")
    assert list(open_source(path).entities) == [
        Entity("A", "Gicht", ("Zipperlein",)), Entity("B", "name", ("B", "b")),
    ]  # fmt: skip


def test_entities_of_xml_that_only_shorten_are_read(tmp_path: Path) -> None:
    declared = OWL.replace("<rdf:RDF", f'<!DOCTYPE rdf:RDF [<!ENTITY obo "{OBO}">]>\n<rdf:RDF', 1)
    text = declared.replace(f'rdf:about="{OBO}', 'rdf:about="&obo;')
    assert list(open_source(written(tmp_path / "x.owl", text)).entities) == ENTITIES


@pytest.mark.parametrize(
    "declaration", ['a "ha"><!ENTITY b "&a;&a;"', 'a SYSTEM "/etc/passwd"', f'a "{"x" * 2000}"']
)
def test_entities_of_xml_that_grow_are_refused(tmp_path: Path, declaration: str) -> None:
    text = OWL.replace("<rdf:RDF", f"<!DOCTYPE rdf:RDF [<!ENTITY {declaration}>]>\n<rdf:RDF", 1)
    with pytest.raises(PelError, match="declares the entity '.' by others or by a file"):
        open_source(written(tmp_path / "x.owl", text))


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("x.owl", "Prefix(:=<http://x>)", "not OWL in RDF/XML; convert it: robot convert"),
        ("x.owl", OWL[:-20], "x.owl: bad XML .*; fetch it again"),
        ("x.owl", OWL.replace("X_2", "X_2" * 999), "x.owl, class X.*far too long|x.owl, class"),
        ("x.json", '{"graphs": [', "bad JSON"),
        ("x.json", '{"graphs": [3]}', "not an OBO Graph .AttributeError.*; fetch it again"),
        ("x.json", '{"graphs": [{"nodes": [{}]}]}', "not an OBO Graph .KeyError: 'id'."),
    ],
)
def test_bad_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(PelError, match=message):
        list(open_source(written(tmp_path / name, text)).entities)


def test_owl_is_a_stream(tmp_path: Path) -> None:
    """Twenty times the classes take no more memory, beside what sorting may hold."""
    peaks = []
    for times in (50, 1_000):
        more = "".join(CLASSES.replace("X_", f"Y{n}_") for n in range(times))
        path = written(tmp_path / "x.owl", f"{HEAD}{more}</rdf:RDF>")
        entities = open_source(path).entities
        tracemalloc.start()
        assert sum(1 for _ in entities) == 2 * times
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0] + 2**20
