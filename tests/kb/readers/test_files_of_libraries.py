"""Ontologies that the libraries of others wrote. All but fastobo are no dependency of the tests:

pip install pronto rdflib owlready2
"""

from __future__ import annotations

from pathlib import Path

import fastobo
import pytest

from spacy_pel.kb.readers import open_source

OBO = "http://purl.obolibrary.org/obo/"
IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
# What each file says, by id: the names, the first of them canonical, and the parents.
SAID = {
    "X:1": (["demyelinating disease"], ()),
    "X:2": (["multiple sclerosis", "MS", "disseminated sclerosis"], ("X:1",)),
}


def check(path: Path) -> None:
    entities = {entity.concept_id: entity for entity in open_source(str(path)).entities}
    found = {id: ([e.names[0], *sorted(e.names[1:])], e.parents) for id, e in entities.items()}
    assert found == SAID
    assert entities["X:2"].definition == "A disease of myelin."


def test_pronto(tmp_path: Path) -> None:
    pronto = pytest.importorskip("pronto")
    ontology = pronto.Ontology()
    parent, child = ontology.create_term("X:1"), ontology.create_term("X:2")
    parent.name, child.name = SAID["X:1"][0][0], SAID["X:2"][0][0]
    child.definition = pronto.Definition("A disease of myelin.")
    child.add_synonym("MS", scope="EXACT")
    child.add_synonym("disseminated sclerosis", scope="RELATED")
    child.superclasses().add(parent)
    with open(tmp_path / "x.obo", "wb") as file:
        ontology.dump(file, format="obo")
    check(tmp_path / "x.obo")


def test_fastobo(tmp_path: Path) -> None:
    """Its OBO Graphs have no synonyms, whatever the ontology has."""
    terms = "[Term]\nid: X:1\nname: demyelinating disease\n\n[Term]\nid: X:2\n"
    terms += 'name: multiple sclerosis\ndef: "A disease of myelin." []\nis_a: X:1\n'
    with open(tmp_path / "x.json", "wb") as file:
        fastobo.dump_graph(fastobo.loads(f"format-version: 1.4\nontology: x\n\n{terms}"), file)
    first, second = open_source(str(tmp_path / "x.json")).entities
    assert (first.names, second.names) == (("demyelinating disease",), ("multiple sclerosis",))
    assert (second.definition, second.parents) == ("A disease of myelin.", ("X:1",))


@pytest.mark.parametrize("format", ["xml", "pretty-xml"])
def test_rdflib(tmp_path: Path, format: str) -> None:
    rdflib = pytest.importorskip("rdflib")
    from rdflib.namespace import OWL, RDF, RDFS

    graph = rdflib.Graph()
    words, terms = rdflib.Namespace(IN_OWL), rdflib.Namespace(OBO)
    graph.bind("oboInOwl", words)
    for id, (names, parents) in SAID.items():
        term = terms[id.replace(":", "_")]
        graph.add((term, RDF.type, OWL.Class))
        graph.add((term, RDFS.label, rdflib.Literal(names[0])))
        for name in names[1:]:
            graph.add((term, words.hasExactSynonym, rdflib.Literal(name)))
        for parent in parents:
            graph.add((term, RDFS.subClassOf, terms[parent.replace(":", "_")]))
    graph.add((terms.X_2, terms.IAO_0000115, rdflib.Literal("A disease of myelin.")))
    graph.serialize(tmp_path / "x.owl", format=format)
    check(tmp_path / "x.owl")


def test_owlready(tmp_path: Path) -> None:
    owlready2 = pytest.importorskip("owlready2")
    ontology = owlready2.World().get_ontology(f"{OBO}x.owl")
    with ontology.get_namespace(IN_OWL):
        synonym = type("hasExactSynonym", (owlready2.AnnotationProperty,), {})
    with ontology.get_namespace(OBO):
        definition = type("IAO_0000115", (owlready2.AnnotationProperty,), {})
        parent = type("X_1", (owlready2.Thing,), {})
        child = type("X_2", (parent,), {})
    for term, (names, _) in zip((parent, child), SAID.values()):
        term.label = names[0]
        setattr(term, synonym.name, names[1:])
    setattr(child, definition.name, ["A disease of myelin."])
    ontology.save(str(tmp_path / "x.owl"), format="rdfxml")
    check(tmp_path / "x.owl")
