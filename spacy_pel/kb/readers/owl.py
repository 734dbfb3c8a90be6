"""OWL in RDF/XML, as ROBOT and Protégé write it, and OBO Graph JSON.

OWL is read as a stream of XML, one class in memory at a time; a graph in JSON is held in memory.
Libraries (pronto, rdflib, owlready2, py-horned-owl) hold either in three times as much.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ...errors import PelError
from ...system.lines import opened_bytes
from .entity_source import (
    ReadOptions,
    Source,
    SourceFormat,
    begins_with,
    file_elements,
    or_gzipped,
)
from .ontology_classes import Facts, class_entities

_LONGEST_ENTITY = 1_000  # characters: Protégé declares the beginnings of its IRIs
_MOST = 2**30  # bytes of a file that is held in memory
_RDF, _OWL, _OBO, _OBO_IN_OWL, _SKOS = (
    "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}",
    "{http://www.w3.org/2002/07/owl#}",
    "{http://purl.obolibrary.org/obo/}",
    "{http://www.geneontology.org/formats/oboInOwl#}",
    "{http://www.w3.org/2004/02/skos/core#}",
)
_RDFS = "{http://www.w3.org/2000/01/rdf-schema#}"
_CLASS = "http://www.w3.org/2002/07/owl#Class"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# The tags of OBO that properties stand for. Of two properties for a name or a definition, the one
# that is listed first counts.
_TAGS = {
    f"{_RDFS}label": "name",
    f"{_SKOS}prefLabel": "name",
    f"{_OBO}IAO_0000115": "def",
    f"{_SKOS}definition": "def",
    f"{_OBO_IN_OWL}hasExactSynonym": "synonym",
    f"{_OBO_IN_OWL}hasRelatedSynonym": "synonym",
    f"{_OBO_IN_OWL}hasNarrowSynonym": "synonym",
    f"{_OBO_IN_OWL}hasBroadSynonym": "synonym",
    f"{_OBO}IAO_0000118": "synonym",
    f"{_SKOS}altLabel": "synonym",
    f"{_OBO_IN_OWL}hasDbXref": "xref",
    f"{_OBO_IN_OWL}hasOBONamespace": "namespace",
    f"{_OBO_IN_OWL}hasAlternativeId": "alt_id",
    f"{_OBO}IAO_0100001": "replaced_by",
    f"{_OWL}deprecated": "is_obsolete",
    f"{_RDFS}subClassOf": "is_a",
}
_PLACES = {property: place for place, property in enumerate(_TAGS)}
_THING = "http://www.w3.org/2002/07/owl#Thing"  # above all classes: no parent in a KB
_IDENTIFIERS = ("xref", "alt_id", "replaced_by", "is_a")

_LAST = re.compile(r"(?:[a-z][a-z0-9+.-]*://.*[/#=]|#)([^/#=]+)", re.IGNORECASE)
_PREFIXED = re.compile(r"([A-Za-z][A-Za-z0-9.]*)_([A-Za-z0-9][A-Za-z0-9.-]*)")


def curie(iri: str) -> str:
    """An IRI as OBO writes it: "MONDO:0005301" for "http://purl.obolibrary.org/obo/MONDO_0005301".

    Of another IRI it is what stands after its last "#", "=" or "/" ("C3243" of the NCI Thesaurus).
    So it is of a relative one ("#C3243"). What is no IRI stays as it is.
    """
    last = _LAST.fullmatch(iri)
    if last is None:
        return iri
    prefixed = _PREFIXED.fullmatch(last[1])
    return f"{prefixed[1]}:{prefixed[2]}" if prefixed else last[1]


def read_owl(path: Path, options: ReadOptions) -> Source:
    """The named classes of an ``.owl`` or ``.owl.gz`` file, as ``class_entities`` makes them.

    Ids are as ``curie`` writes them. Labels, synonyms and definitions of SKOS count as well; texts
    in other languages than English count only where there is no other. The version is the version
    IRI of the ontology, or its version info.

    Raises:
        PelError: It is not RDF/XML. Reading the entities raises it for bad XML, and, with file and
            class, for what ``cleaned`` refuses.
    """
    if not begins_with(path, b"rdf:RDF"):
        raise PelError(
            f"{path}: not OWL in RDF/XML",
            f"convert it: robot convert --input {path.name} --output {path.name}.obo",
        )
    version = None
    for element in file_elements(path, longest_entity=_LONGEST_ENTITY):
        if element.tag == f"{_OWL}Ontology":
            iri = element.find(f"{_OWL}versionIRI")
            info = element.findtext(f"{_OWL}versionInfo")
            version = info if iri is None else iri.get(f"{_RDF}resource")
        if element.tag in (f"{_OWL}Ontology", f"{_OWL}Class"):
            break
    return Source(class_entities(path, _owl_classes(path)), version=version)


def _owl_classes(path: Path) -> Iterator[tuple[str, str, Facts]]:
    for element in file_elements(path, longest_entity=_LONGEST_ENTITY):
        iri = element.get(f"{_RDF}about") or element.get(f"{_RDF}ID")
        types = {type.get(f"{_RDF}resource") for type in element.iterfind(f"{_RDF}type")}
        if iri and (element.tag == f"{_OWL}Class" or _CLASS in types):
            yield f"{path}, class {curie(iri)}", curie(iri), _facts_of_element(element)


def _facts_of_element(element: ElementTree.Element) -> Facts:
    """The values of a class, those of the best property and language first."""
    found = []
    for child in element:
        value = child.get(f"{_RDF}resource") or (child.text or "").strip()
        if child.tag in _TAGS and value not in ("", _THING):
            language = (child.get(_LANGUAGE) or "en").lower().partition("-")[0]
            found.append((language != "en", _PLACES[child.tag], _TAGS[child.tag], value))
    facts: Facts = {}
    for is_foreign, _, tag, value in sorted(found, key=lambda each: each[:2]):
        if is_foreign and tag in facts:
            continue
        facts.setdefault(tag, []).append(curie(value) if tag in _IDENTIFIERS else value)
    if facts.get("is_obsolete") != ["true"]:
        facts.pop("is_obsolete", None)
    names = facts.get("name", [])
    return {**facts, "name": names[:1], "synonym": [*names[1:], *facts.get("synonym", ())]}


def read_obo_graph(path: Path, options: ReadOptions) -> Source:
    """The classes of a ``.json`` or ``.json.gz`` file, as ``class_entities`` makes them.

    Ids are as ``curie`` writes them. The version is that of the first graph.

    Raises:
        PelError: It is no such file. Reading the entities raises it, with file and class, for what
            ``cleaned`` refuses.
    """
    try:
        with opened_bytes(path) as file:
            data = file.read(_MOST + 1)
        if len(data) > _MOST:
            raise PelError(f"{path}: longer than {_MOST:,} bytes", "take the ontology's OBO file")
        graphs = json.loads(data)["graphs"]
        classes = [(f"{path}, class {id}", id, f) for g in graphs for id, f in _graph_classes(g)]
        version = (graphs[0].get("meta") or {}).get("version") if graphs else None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PelError(f"{path}: bad JSON ({error})", "fetch it again") from error
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        problem = f"{path}: not an OBO Graph ({type(error).__name__}: {error})"
        raise PelError(problem, "fetch it again, or its OBO file") from error
    return Source(class_entities(path, classes), version=version)


def _graph_classes(graph: dict[str, Any]) -> Iterator[tuple[str, Facts]]:
    given = _properties(graph.get("meta") or {})
    default = [*given.get("hasDefaultNamespace", ()), *given.get("default-namespace", ())]
    parents: dict[str, list[str]] = {}
    for edge in graph.get("edges") or ():
        if edge["pred"] == "is_a":
            parents.setdefault(edge["sub"], []).append(curie(edge["obj"]))
    for node in graph.get("nodes") or ():
        if node.get("type", "CLASS") == "CLASS":
            meta = node.get("meta") or {}
            properties = _properties(meta)
            replaced_by = [*properties.get("IAO:0100001", ()), *properties.get("replacedBy", ())]
            yield (
                curie(node["id"]),
                {
                    "name": [node["lbl"]] if node.get("lbl") else [],
                    "namespace": properties.get("hasOBONamespace", default),
                    "alt_id": [curie(id) for id in properties.get("hasAlternativeId", ())],
                    "def": [meta["definition"]["val"]] if meta.get("definition") else [],
                    "synonym": [each["val"] for each in meta.get("synonyms") or ()],
                    "xref": [curie(each["val"]) for each in meta.get("xrefs") or ()],
                    "is_a": parents.get(node["id"], []),
                    "is_obsolete": ["true"] if meta.get("deprecated") else [],
                    "replaced_by": [curie(id) for id in replaced_by],
                },
            )


def _properties(meta: dict[str, Any]) -> dict[str, list[str]]:
    """The values of each property, by its name without the vocabulary."""
    properties: dict[str, list[str]] = {}
    for each in meta.get("basicPropertyValues") or ():
        properties.setdefault(curie(each["pred"]), []).append(each["val"])
    return properties


FORMATS = (
    SourceFormat(
        "obo-graph",
        read_obo_graph,
        or_gzipped(".json"),
        is_file=partial(begins_with, mark=b'"graphs"'),
    ),
    SourceFormat("owl", read_owl, or_gzipped(".owl")),
)
