"""OWL in RDF/XML, as ROBOT and Protégé write it.

It is read as a stream of XML, one class in memory at a time. Libraries for OWL (rdflib, owlready2,
pronto, py-horned-owl) hold the whole graph, which takes many times the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from ...errors import PelError
from ...system.lines import opened_bytes
from ..records.merging import united
from .entity_source import ReadOptions, Source
from .mesh_xml import xml_file
from .obo import Facts
from .ontology_classes import OntologyClass, class_entities, curie

_LOOKED_AT = 1 << 16  # bytes at the start of a file
_LONGEST_ENTITY = 1_000
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


def read_owl(path: Path, options: ReadOptions) -> Source:
    """The named classes of an ``.owl`` or ``.owl.gz`` file that are not deprecated, sorted by id.

    They are made as those of OBO (``read_obo``), with ids as ``curie`` writes them. Labels,
    synonyms and definitions of SKOS count as well; texts in other languages than English count only
    where there is no other. The version is the version IRI of the ontology, or its version info.

    Raises:
        PelError: It is not RDF/XML. Reading the entities raises it for bad XML, and, with file and
            class, for what ``cleaned`` refuses.
    """
    _check(path)
    return Source(united(class_entities(path, partial(_classes, path))), version=_version(path))


def _check(path: Path) -> None:
    """Raises PelError for what is not RDF/XML, or declares XML entities that may grow."""
    with opened_bytes(path) as file:
        start = file.read(_LOOKED_AT)
    if b"rdf:RDF" not in start:
        raise PelError(
            f"{path}: not OWL in RDF/XML",
            f"convert it: robot convert --input {path.name} --output {path.name}.obo",
        )
    parser = expat.ParserCreate()

    def refuse_if_growing(name: str, is_parameter: int, value: str | None, *_: object) -> None:
        if value is None or "&" in value or "%" in value or len(value) > _LONGEST_ENTITY:
            raise PelError(
                f"{path}: declares the entity {name!r} by others or by a file",
                "write the ontology anew, for example with robot convert",
            )

    parser.EntityDeclHandler = refuse_if_growing
    try:
        parser.Parse(start)
    except expat.ExpatError as error:
        raise PelError(f"{path}: bad XML ({error})", "fetch it again") from error


def _version(path: Path) -> str | None:
    for element in _elements(path):
        if element.tag == f"{_OWL}Ontology":
            iri = element.find(f"{_OWL}versionIRI")
            info = element.findtext(f"{_OWL}versionInfo")
            return info if iri is None else iri.get(f"{_RDF}resource")
        if element.tag == f"{_OWL}Class":
            break
    return None


def _classes(path: Path) -> Iterator[OntologyClass]:
    for element in _elements(path):
        iri = element.get(f"{_RDF}about") or element.get(f"{_RDF}ID")
        if iri and _is_class(element):
            yield curie(iri), _facts(element)


def _is_class(element: ElementTree.Element) -> bool:
    types = {type.get(f"{_RDF}resource") for type in element.iterfind(f"{_RDF}type")}
    return element.tag == f"{_OWL}Class" or _CLASS in types


def _facts(element: ElementTree.Element) -> Facts:
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


def _elements(path: Path) -> Iterator[ElementTree.Element]:
    """The elements below the root, one in memory at a time."""
    with xml_file(path) as file:
        depth = 0
        root = None
        for event, element in ElementTree.iterparse(file, events=("start", "end")):
            if event == "start":
                root = element if root is None else root
                depth += 1
                continue
            depth -= 1
            if depth == 1:
                yield element
                root.clear()
