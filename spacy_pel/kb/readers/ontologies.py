"""Ontologies in OBO, and in OWL (RDF/XML, as ROBOT and Protégé write it), as streams.

Libraries (pronto, fastobo, rdflib, owlready2, py-horned-owl) hold a file in memory, or refuse bad OBO.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from ...errors import PelError
from ...io.lines import LONGEST_LINE, numbered_lines, opened_bytes, record_too_long
from ...io.xml_elements import file_elements
from ..records.entity import Entity, cleaned_at, ends_of
from .entity_source import ReadOptions, Source, SourceFormat

logger = logging.getLogger(__name__)

Facts = dict[str, list[str]]  # the values of a class by the tags of OBO
Class = tuple[str, str, Facts]  # its place, id and facts


def _class_entities(
    path: Path, classes: Iterable[Class], namespace: str | None = None
) -> Iterator[Entity]:
    """The entities of the classes that have a name and are not obsolete.

    Synonyms of every scope are aliases. The type is the namespace of the class, or else the given one; the
    source is the prefix of the id. An obsolete id that exactly one class replaces becomes its retired id.
    """
    known: dict[str, Entity] = {}
    replaced_by: dict[str, str] = {}
    nameless = 0
    for place, id, facts in classes:
        if facts.get("is_obsolete"):
            if len(facts.get("replaced_by", ())) == 1:
                [replaced_by[id]] = facts["replaced_by"]
        elif facts.get("name"):
            prefix, colon, _ = id.partition(":")
            entity = Entity(
                concept_id=id,
                canonical_name=facts["name"][0],
                aliases=tuple(facts.get("synonym", ())),
                types=tuple(facts.get("namespace") or filter(None, [namespace])),
                definition=next(iter(facts.get("def", ())), None),
                alt_ids=tuple(facts.get("alt_id", ())),
                parents=tuple(facts.get("is_a", ())),
                xrefs=tuple(facts.get("xref", ())),
                sources=(prefix,) if colon and "/" not in id else (),
            )
            entity = cleaned_at(place, entity)
            known.setdefault(id, Entity(id, entity.canonical_name, sources=entity.sources))
            yield entity
        else:
            nameless += 1
    ends = ends_of(replaced_by)
    for retired in sorted(replaced_by):
        if lasting := known.get(ends[retired]):  # joined with the record above
            yield lasting._replace(retired_ids=(retired,))
    if nameless:
        logger.warning("%s: skipped %d classes without a name", path, nameless)


# OBO

_IDENTIFIER = r"((?:[^\s\\]|\\.)+)(?=\s|$)"
# What is read of each clause. References, qualifiers and comments stand behind it.
_VALUES = {
    "id": rf"{_IDENTIFIER}\s*(?:[!{{].*)?$",
    **dict.fromkeys(("alt_id", "xref", "is_a", "is_obsolete", "replaced_by"), _IDENTIFIER),
    **dict.fromkeys(("name", "namespace"), r"((?:[^\\!{]|\\.)*(?:[^\\!{\s]|\\.))"),
    **dict.fromkeys(("def", "synonym"), r'"((?:[^"\\]|\\.)*)"'),
}
_CLAUSES = {tag: re.compile(rf"{tag}:\s*{value}") for tag, value in _VALUES.items()}
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "W": " "}


def read_obo(path: Path, options: ReadOptions) -> Source:
    """The terms of an ``.obo`` file, as ``_class_entities`` makes them.

    Frames with the same id are joined, as the format says; so files may be concatenated. A clause that
    cannot be read is left out and counted, unless it is an id or a name.
    """
    header: dict[str, str] = {}
    for _, line in numbered_lines(path):
        if line.startswith("["):
            break
        tag, _, value = line.partition(":")
        header.setdefault(tag, value.strip())
    entities = _class_entities(path, _obo_terms(path), header.get("default-namespace"))
    return Source(entities, version=header.get("data-version"))


def _obo_terms(path: Path) -> Iterator[Class]:
    facts: Facts = {}
    is_term, size, broken = False, 0, []
    for number, line in chain(numbered_lines(path), [(0, "[")]):
        tag, place, size = line.partition(":")[0], f"{path}, line {number}", size + len(line)
        if line.startswith("["):
            if facts:
                yield f"{path}, term {facts['id'][0]}", facts["id"][0], facts
            is_term, facts, size = line.startswith("[Term]"), {}, 0
        elif is_term and tag in _CLAUSES:
            if size > LONGEST_LINE:
                raise record_too_long(path, number)
            found = _CLAUSES[tag].match(line)
            if found and ("id" in facts) == (tag != "id"):
                value = _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), found[1])
                if (tag, value) != ("is_obsolete", "false"):
                    facts.setdefault(tag, []).append(value)
            elif tag in ("id", "name") or "id" not in facts:
                problem = f"{place}: cannot be parsed as OBO: {line[:80]!r}"
                raise PelError(problem, "correct the line")
            else:
                broken.append(f"{number}: {line[:80]}")
    if broken:
        said = "%s: left out %d clauses, the first in line %s"
        logger.warning(said, path, len(broken), broken[0])


# OWL

_THING = "http://www.w3.org/2002/07/owl#Thing"  # above all classes: no parent in a KB
# The tags of OBO that properties stand for, by their names as of ``curie``. Of two properties for a
# name or a definition, the one that is listed first counts.
_TAGS = {
    **dict.fromkeys(("label", "prefLabel"), "name"),
    **dict.fromkeys(("IAO:0000115", "definition"), "def"),
    **dict.fromkeys(("hasExactSynonym", "hasRelatedSynonym", "hasNarrowSynonym"), "synonym"),
    **dict.fromkeys(("hasBroadSynonym", "IAO:0000118", "altLabel"), "synonym"),
    **dict.fromkeys(("IAO:0100001", "replacedBy"), "replaced_by"),
    **{"hasDbXref": "xref", "hasOBONamespace": "namespace", "hasAlternativeId": "alt_id"},
    **{"deprecated": "is_obsolete", "subClassOf": "is_a"},
}
_RANKS = {property: rank for rank, property in enumerate(_TAGS)}
_IDENTIFIERS = ("xref", "alt_id", "replaced_by", "is_a")

_LAST = re.compile(r"(?:[a-z][a-z0-9+.-]*://.*[/#=]|#)([^/#=]+)", re.IGNORECASE)
_PREFIXED = re.compile(r"([A-Za-z][A-Za-z0-9.]*)_([A-Za-z0-9][A-Za-z0-9.-]*)")


def curie(iri: str) -> str:
    """An IRI as OBO writes it: "MONDO:0005301" for "http://purl.obolibrary.org/obo/MONDO_0005301".

    Of another IRI it is what stands after its last "#", "=" or "/". What is no IRI stays as it is.
    """
    last = _LAST.fullmatch(iri)
    if last is None:
        return iri
    prefixed = _PREFIXED.fullmatch(last[1])
    return f"{prefixed[1]}:{prefixed[2]}" if prefixed else last[1]


def _facts(values: Iterable[tuple[str, str, str]]) -> Facts:
    """The facts of properties, values and languages, the best first; English, if there is any."""
    found = []
    for property, value, language in values:
        name = curie(property)
        if name in _TAGS and value not in ("", _THING):
            is_foreign = language.lower().partition("-")[0] != "en"
            found.append((is_foreign, _RANKS[name], _TAGS[name], value))
    facts: Facts = {}
    for is_foreign, _, tag, value in sorted(found, key=lambda each: each[:2]):
        if not (is_foreign and tag in facts):
            facts.setdefault(tag, []).append(curie(value) if tag in _IDENTIFIERS else value)
    names = facts.get("name", [])
    return {
        **facts,
        "name": names[:1],
        "synonym": [*names[1:], *facts.get("synonym", ())],
        "is_obsolete": [value for value in facts.get("is_obsolete", ()) if value == "true"],
    }


_LONGEST_ENTITY = 1_000  # characters: Protégé declares the beginnings of its IRIs
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_OWL = "{http://www.w3.org/2002/07/owl#}"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_owl(path: Path, options: ReadOptions) -> Source:
    """The named classes of an ``.owl`` file, as ``_class_entities`` makes them; ids as of ``curie``."""
    with opened_bytes(path) as file:
        head = file.read(1 << 16)
    if b"rdf:RDF" not in head:
        remedy = f"convert it: robot convert --input {path.name} --output {path.name}.obo"
        raise PelError(f"{path}: not OWL in RDF/XML", remedy)
    version = None
    for element in file_elements(path, longest_entity=_LONGEST_ENTITY):
        if element.tag == f"{_OWL}Ontology":
            iri = element.find(f"{_OWL}versionIRI")
            info = element.findtext(f"{_OWL}versionInfo")
            version = info if iri is None else iri.get(f"{_RDF}resource")
        if element.tag in (f"{_OWL}Ontology", f"{_OWL}Class"):
            break
    return Source(_class_entities(path, _owl_classes(path)), version=version)


def _owl_classes(path: Path) -> Iterator[Class]:
    for element in file_elements(path, longest_entity=_LONGEST_ENTITY):
        iri = element.get(f"{_RDF}about") or element.get(f"{_RDF}ID")
        types = {type.get(f"{_RDF}resource") for type in element.iterfind(f"{_RDF}type")}
        if iri and (element.tag == f"{_OWL}Class" or f"{_OWL[1:-1]}Class" in types):
            tags = (child.tag.lstrip("{").replace("}", "") for child in element)
            values = (c.get(f"{_RDF}resource") or (c.text or "").strip() for c in element)
            languages = (child.get(_LANGUAGE) or "en" for child in element)
            yield f"{path}, class {curie(iri)}", curie(iri), _facts(zip(tags, values, languages))


OBO = SourceFormat("obo", read_obo, ("*.obo",))
OWL = SourceFormat("owl", read_owl, ("*.owl",))
