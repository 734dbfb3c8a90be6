import logging
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.build import united
from spacy_pel.kb.readers import ReadOptions, detected_format, open_source
from spacy_pel.kb.readers.ontologies import curie

from ...conftest import write_text

# A small ontology of our own, compared with files that rdflib, owlready2 and py-horned-owl wrote of it.
ENTITIES = [
    Entity("X:1", "demyelinating disease", types=("tiny",), sources=("X",)),
    Entity(
        "X:2",
        "multiple sclerosis",
        ("MS", "disseminated sclerosis"),
        ("other",),
        "A disease of myelin.",
        alt_ids=("X:9",),
        parents=("X:1",),
        retired_ids=("X:3",),
        xrefs=("ICD10CM:G35", "UMLS:C0026769"),
        sources=("X",),
        exact_names=("MS",),
        related_names=("disseminated sclerosis",),
    ),
]
OBO = "http://purl.obolibrary.org/obo/"
OBO_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
HEAD = f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
     xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
     xmlns:owl="http://www.w3.org/2002/07/owl#"
     xmlns:skos="http://www.w3.org/2004/02/skos/core#"
     xmlns:obo="{OBO}" xmlns:oboInOwl="{OBO_IN_OWL}">
"""
ONTOLOGY = f"""<owl:Ontology rdf:about="{OBO}x.owl">
  <owl:versionIRI rdf:resource="{OBO}x/2026/x.owl"/>
</owl:Ontology>
"""
CLASSES = f"""<owl:ObjectProperty rdf:about="{OBO}BFO_0000050">
  <rdfs:label>part of</rdfs:label></owl:ObjectProperty>
<owl:Class rdf:about="{OBO}X_2">
  <oboInOwl:hasAlternativeId>X:9</oboInOwl:hasAlternativeId>
  <rdfs:label xml:lang="de">Multiple Sklerose</rdfs:label>
  <rdfs:label xml:lang="en">multiple sclerosis</rdfs:label>
  <rdfs:subClassOf rdf:resource="{OBO}X_1"/>
  <rdfs:subClassOf><owl:Restriction>
    <owl:onProperty rdf:resource="{OBO}BFO_0000050"/>
    <owl:someValuesFrom><owl:Class rdf:about="{OBO}X_4"/></owl:someValuesFrom>
  </owl:Restriction></rdfs:subClassOf>
  <obo:IAO_0000115>A disease of myelin.</obo:IAO_0000115>
  <oboInOwl:hasRelatedSynonym>disseminated sclerosis</oboInOwl:hasRelatedSynonym>
  <oboInOwl:hasExactSynonym xml:lang="en-US">MS</oboInOwl:hasExactSynonym>
  <oboInOwl:hasDbXref>ICD10CM:G35</oboInOwl:hasDbXref>
  <oboInOwl:hasDbXref rdf:resource="{OBO}UMLS_C0026769"/>
  <oboInOwl:hasOBONamespace>other</oboInOwl:hasOBONamespace>
</owl:Class>
<owl:Axiom><owl:annotatedSource rdf:resource="{OBO}X_2"/><rdfs:label>no class</rdfs:label></owl:Axiom>
<rdf:Description rdf:about="{OBO}X_1">
  <rdf:type rdf:resource="http://www.w3.org/2002/07/owl#Class"/>
  <oboInOwl:hasOBONamespace>tiny</oboInOwl:hasOBONamespace>
  <rdfs:label>demyelinating disease</rdfs:label>
</rdf:Description>
<owl:Class rdf:about="{OBO}X_3">
  <rdfs:label>obsolete insular sclerosis</rdfs:label>
  <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
  <obo:IAO_0100001 rdf:resource="{OBO}X_2"/>
</owl:Class>
<owl:Class rdf:about="{OBO}X_4"/>
"""
OWL = f"{HEAD}{ONTOLOGY}{CLASSES}</rdf:RDF>\n"

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
    exact_names=("influenza",),
    related_names=("grippe",),
)


@pytest.mark.parametrize(
    "name, text, format, version, entities",
    [
        ("x.obo", TERMS, "obo", "releases/2016-03-04", [DISEASE, FLU]),
        ("x.obo.gz", TERMS, "obo", "releases/2016-03-04", [DISEASE, FLU]),
        ("x.owl", OWL, "owl", f"{OBO}x/2026/x.owl", ENTITIES),
        ("x.owl.gz", OWL, "owl", f"{OBO}x/2026/x.owl", ENTITIES),
    ],
)
def test_an_ontology(
    tmp_path: Path, caplog, name: str, text: str, format: str, version: str, entities: list
) -> None:
    path = write_text(tmp_path / name, text)
    assert detected_format(path) == format
    source = open_source(path)
    assert source.version == version
    with caplog.at_level(logging.WARNING):
        assert list(united(source.entities)) == entities
    assert ("skipped 1 classes without a name" in caplog.text) == (text != TERMS)


def test_classes_with_one_id_and_files_in_a_row_are_joined(tmp_path: Path) -> None:
    again = 'format-version: 1.2\n\n[Term]\nid: D:1\nname: disease\ndef: "Bad." []\nis_a: D:1\n'
    path = write_text(tmp_path / "x.obo", TERMS + again)
    assert list(united(open_source(path).entities)) == [DISEASE._replace(definition="Bad."), FLU]


def test_what_stands_behind_a_value_does_not_matter(tmp_path: Path, caplog) -> None:
    text = (
        '[Term]\nid: D:1 ! a\nname: a\\! b {x="y, \\"z\\"", http://x#w=""} ! c\n'
        'def: "A\\n\\"text\\"." [JA:Two Words, url:http\\://x]\n'
        'synonym: "b" BROAD [ISBN 3 [x\\]]\nxref: http://x.org/Y\\:Z {\nsynonym: "c\n'
        "xref: MSH:D1\n\n[Term]\nid: D:2\n"
    )
    with caplog.at_level(logging.WARNING):
        [entity] = open_source(write_text(tmp_path / "x.obo", text)).entities
    assert entity[:3] == ("D:1", "a! b", ("b",)) and entity.definition == 'A "text".'
    assert entity.xrefs == ("http://x.org/Y:Z", "MSH:D1")
    assert "left out 1 clauses, the first in line 7: synonym" in caplog.text
    assert "skipped 1 classes without a name" in caplog.text


@pytest.mark.parametrize(
    "clause, names",
    [
        # Shapes of ChEBI: braces, brackets and quotes that are part of a name.
        ("name: N(4)-{beta-D-Glc-(1->4)}-Asn residue", ("N(4)-{beta-D-Glc-(1->4)}-Asn residue",)),
        ("name: {[imino]amino}acetic acid", ("{[imino]amino}acetic acid",)),
        ('name: poly {A=B} ester {source="x"}', ("poly {A=B} ester",)),
        ("name: poly {n}", ("poly {n}",)),
        (r"name: a \{b\} c", ("a {b} c",)),
        ("name: Yahoo!gene", ("Yahoo!gene",)),
        ("name: a ! b", ("a",)),
        (r'synonym: "the \"b\" form" EXACT []', ("x", 'the "b" form')),
        ('synonym: "the "b" form" RELATED [KEGG:C1]', ("x", 'the "b" form')),
        (r'synonym: "5"-end" EXACT IUPAC_NAME [X:1 "a \"] b"] {y="z"} ! "c"', ("x", '5"-end')),
        ('synonym: "{b}!" RELATED syn:type []', ("x", "{b}!")),
        ('synonym: "b" []', ("x", "b")),
        ('synonym: "b"', ("x", "b")),
    ],
)
def test_braces_and_quotes_in_a_clause(tmp_path: Path, clause: str, names: tuple[str, ...]) -> None:
    name = "" if clause.startswith("name") else "name: x\n"
    path = write_text(tmp_path / "x.obo", f"[Term]\nid: CHEBI:1\n{name}{clause}\n")
    [entity] = open_source(path).entities
    assert entity.names == names


# What ORDO, EFO and NCIt write, in small: our own classes.
PROPERTIES = """
  <owl:Class rdf:about="http://www.orpha.net/ORDO/Orphanet_558" xmlns:efo="http://www.ebi.ac.uk/efo/">
    <rdfs:label xml:lang="en">Marfan syndrome</rdfs:label>
    <efo:alternative_term xml:lang="en">MFS</efo:alternative_term>
    <efo:alternative_term xml:lang="fr">Syndrome de Marfan</efo:alternative_term>
    <efo:definition xml:lang="en">A disease of fibrillin.</efo:definition>
    <efo:definition_citation>orphanet</efo:definition_citation>
    <oboInOwl:hasDbXref>ICD-10:Q87.4</oboInOwl:hasDbXref>
    <skos:notation>ORPHA:558</skos:notation>
  </owl:Class>
  <owl:Class rdf:about="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#C3243"
      xmlns="http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#">
    <rdfs:label>Multiple Sclerosis</rdfs:label>
    <NHC0>C3243</NHC0>
    <P90>MS</P90>
    <P90>Multiple Sclerosis</P90>
    <P90>Disseminated Sclerosis</P90>
    <P97>A disease of myelin.</P97>
    <P106>Disease or Syndrome</P106>
    <P108>Multiple Sclerosis</P108>
  </owl:Class>
"""


def test_the_properties_of_ordo_and_of_ncit(tmp_path: Path, caplog) -> None:
    path = write_text(tmp_path / "x.owl", f"{HEAD}{PROPERTIES}</rdf:RDF>")
    assert sorted(open_source(path).entities, reverse=True) == [
        Entity(
            *("Orphanet:558", "Marfan syndrome", ("MFS",), (), "A disease of fibrillin."),
            xrefs=("ICD-10:Q87.4",),
            sources=("Orphanet",),
        ),
        Entity(
            *("C3243", "Multiple Sclerosis", ("MS", "Disseminated Sclerosis")),
            *(("Disease or Syndrome",), "A disease of myelin."),
        ),
    ]
    assert not caplog.records


def test_annotations_that_are_ignored_are_named_if_no_class_has_a_synonym(
    tmp_path: Path, caplog
) -> None:
    unknown = PROPERTIES.replace("alternative_term", "other_name").replace("P90", "P1")
    path = write_text(tmp_path / "x.owl", f"{HEAD}{unknown}</rdf:RDF>")
    assert [entity.aliases for entity in open_source(path).entities] == [(), ()]
    expected = "no class has a synonym; annotations that were ignored: P1 (3), other_name (2), "
    assert expected in caplog.text


def test_synonyms_keep_their_scope(tmp_path: Path) -> None:
    scopes = ("exact", "narrow", "broad", "related")
    clauses = [f'synonym: "{scope} \\"x\\"" {scope.upper()} [X:1]' for scope in scopes]
    clauses += ['synonym: "EXACT" []', 'property_value: alternative:term "a" xsd:string']
    clauses += [
        f'property_value: {property} "{property[-10:]}" xsd:string'
        for property in (f"{OBO_IN_OWL}hasNarrowSynonym", "skos:altLabel", "http://x.org/other")
    ]
    of_obo = write_text(tmp_path / "x.obo", "\n".join(["[Term]\nid: X:1\nname: x", *clauses]))
    [entity] = open_source(of_obo).entities
    of_obo_format = {f'{scope} "x"': scope for scope in scopes}
    assert entity.scopes == {**of_obo_format, "rowSynonym": "narrow"}
    assert entity.aliases == (*of_obo_format, "EXACT", "a", "rowSynonym", "s:altLabel")

    elements = [
        f"<oboInOwl:has{s.title()}Synonym>{s}</oboInOwl:has{s.title()}Synonym>" for s in scopes
    ]
    elements += ["<skos:altLabel>alt</skos:altLabel><skos:hiddenLabel>hidden</skos:hiddenLabel>"]
    named = f'<owl:Class rdf:about="#1"><rdfs:label>x</rdfs:label>{"".join(elements)}</owl:Class>'
    [entity] = open_source(write_text(tmp_path / "x.owl", f"{HEAD}{named}</rdf:RDF>")).entities
    assert entity.scopes == dict(zip(scopes, scopes))
    assert {*entity.aliases} == {*scopes, "alt", "hidden"}


@pytest.mark.parametrize(
    "ontology, prefixes, kept",
    [
        ("cl/cl-basic", (), "CL:1 CL:2 CL:3 CL:4"),
        (f"{OBO}cl.owl", (), "CL:1 CL:2 CL:3 CL:4"),
        ("cl", ("chebi", "GO"), "CHEBI:1 CHEBI:2 GO:1 GO:2"),
        ("cl", ("all",), "CHEBI:1 CHEBI:2 CL:1 CL:2 CL:3 CL:4 GO:1 GO:2"),
        # Mostly imports: those below its own classes stay.
        ("http://www.ebi.ac.uk/go/go.owl", (), "CHEBI:2 GO:1 GO:2"),
        # No id has this prefix, and none is in most ids.
        ("http://x.org/ontology/X_en_3.1.owl", (), "CHEBI:1 CHEBI:2 CL:1 CL:2 CL:3 CL:4 GO:1 GO:2"),
    ],
)
def test_classes_of_other_ontologies_are_left_out(
    tmp_path: Path, caplog, ontology: str, prefixes: tuple[str, ...], kept: str
) -> None:
    ids = "CL:1 CL:2 CHEBI:1 GO:1 CHEBI:2 CL:3 CL:4 GO:2".split()
    above = {"CHEBI:2": "GO:2", "CL:1": "CHEBI:1"}
    terms = [f"[Term]\nid: {id}\nname: {id}\nis_a: {above.get(id, 'X:1')}\n" for id in ids]
    # An obsolete class is no class, and its id is one of what replaces it, if that stays.
    terms += ["[Term]\nid: GO:9\nname: old\nis_obsolete: true\nreplaced_by: GO:1\n"] * 3
    path = write_text(tmp_path / "x.obo", f"ontology: {ontology}\n\n" + "\n".join(terms))
    source = open_source(path, options=ReadOptions(prefixes=prefixes))
    found = list(united(source.entities))
    assert [entity.concept_id for entity in found] == kept.split()
    assert ("GO:9" in found[-1].retired_ids + found[-2].retired_ids) == ("GO:1" in kept)
    out = set(ids) - set(kept.split())
    assert source.left_out == Counter(id.partition(":")[0] for id in out)
    assert (f"left out {len(out)} classes of other ontologies" in caplog.text) == bool(out)


def test_the_prefix_of_most_classes_is_that_of_the_ontology(tmp_path: Path) -> None:
    terms = [f"[Term]\nid: {id}\nname: x\n" for id in ("Orphanet:1", "HGNC:1", "Orphanet:2")]
    path = write_text(tmp_path / "x.obo", "ontology: ordo\n\n" + "\n".join(terms))
    ids = [entity.concept_id for entity in open_source(path).entities]
    assert ids == ["Orphanet:1", "Orphanet:2"]
    with pytest.raises(PelError, match="no class has the prefix MONDO; choose from Orphanet, HGNC"):
        list(open_source(path, options=ReadOptions(prefixes=["MONDO"])).entities)


@pytest.mark.parametrize(
    "iri, short",
    [
        (f"{OBO}MONDO_0005301", "MONDO:0005301"),
        ("http://www.orpha.net/ORDO/Orphanet_558", "Orphanet:558"),
        ("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl#C3243", "C3243"),
        ("http://snomed.info/id/24700007", "24700007"),
        ("#C3243", "C3243"),
        ("ICD10CM:S72.001/A", "ICD10CM:S72.001/A"),
        ("http://example.org/", "http://example.org/"),
        ("", ""),
    ],
)
def test_an_iri_is_written_as_obo_writes_it(iri: str, short: str) -> None:
    assert curie(iri) == short


def test_texts_of_other_languages_count_where_there_is_no_english_one(tmp_path: Path) -> None:
    text = """<owl:Class rdf:about="#A"><skos:prefLabel xml:lang="de">Gicht</skos:prefLabel>
    <skos:altLabel xml:lang="de">Zipperlein</skos:altLabel></owl:Class>
    <owl:Class rdf:ID="B"><skos:altLabel>b</skos:altLabel><skos:prefLabel>B</skos:prefLabel>
    <rdfs:label>name</rdfs:label></owl:Class>"""
    path = write_text(tmp_path / "x.owl", f"{HEAD}{text}</rdf:RDF>")
    assert list(open_source(path).entities) == [
        Entity("A", "Gicht", ("Zipperlein",)), Entity("B", "name", ("B", "b")),
    ]  # fmt: skip


def test_entities_of_xml_that_only_shorten_are_read(tmp_path: Path) -> None:
    declared = OWL.replace("<rdf:RDF", f'<!DOCTYPE rdf:RDF [<!ENTITY obo "{OBO}">]>\n<rdf:RDF', 1)
    text = declared.replace(f'rdf:about="{OBO}', 'rdf:about="&obo;')
    found = united(open_source(write_text(tmp_path / "x.owl", text)).entities)
    assert list(found) == ENTITIES


def test_owl_is_a_stream(tmp_path: Path) -> None:
    """Three times the classes, of files larger than a block, take no more memory: that of a block."""
    peaks = []
    for times in (800, 2400):
        more = "".join(CLASSES.replace("X_", f"X_{n}0") for n in range(times))
        text = f"{HEAD}{ONTOLOGY}{more}</rdf:RDF>"
        entities = open_source(write_text(tmp_path / "x.owl", text)).entities
        tracemalloc.start()
        assert sum(1 for _ in entities) == 3 * times  # one says what id has retired
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
