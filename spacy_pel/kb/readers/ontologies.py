"""Ontologies in OBO, in OWL (RDF/XML, as ROBOT and Protégé write it), and as OBO Graph JSON.

OBO and OWL are read as streams. Libraries (pronto, rdflib, owlready2, py-horned-owl) hold either in
memory, and pronto reads no OBO file that breaks the grammar, as published files do.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...system.lines import LONGEST_LINE, numbered_lines, opened_bytes, record_too_long
from ..records.entity import Entity, cleaned_at
from ..records.merging import ends_of, united
from .entity_source import ReadOptions, Source, SourceFormat, begins_with, file_elements

logger = logging.getLogger(__name__)

Facts = dict[str, list[str]]  # the values of a class by the tags of OBO
Class = tuple[str, str, Facts]  # its place, id and facts


def _class_entities(
    path: Path, classes: Iterable[Class], namespace: str | None = None
) -> Iterator[Entity]:
    """The entities of the classes that have a name and are not obsolete, to be ``united``.

    Synonyms of every scope are aliases. The type is the namespace of the class, or else the given one.
    The source is the prefix of the id. If exactly one class replaces an obsolete class, the obsolete id
    becomes a retired id of that class.
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
            known.setdefault(id, Entity(id, entity.canonical_name, alt_ids=entity.alt_ids))
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

# The clauses that are read, and the attribute of fastobo's clause that holds the value.
_VALUES = {
    "name": "name", "namespace": "namespace", "alt_id": "alt_id", "def": "definition",
    "synonym": "synonym.desc", "xref": "xref.id", "is_a": "term", "is_obsolete": "obsolete",
    "replaced_by": "term",
}  # fmt: skip
# A definition or synonym up to its type and references: "text" EXACT ABBREVIATION [PMID:1]
_QUOTED = re.compile(r'(?:def|synonym): *"(?:[^"\\]|\\.)*"(?: *(?:EXACT|BROAD|NARROW|RELATED))?')

Line = tuple[int, str]  # number and text


def read_obo(path: Path, options: ReadOptions) -> Source:
    """The terms of an ``.obo`` file, as ``_class_entities`` makes them.

    Frames with the same id are joined, as the format says; so files may be concatenated. A clause that
    breaks the grammar is read without its references, or else left out and counted, unless it is an id
    or a name.
    """
    header: dict[str, str] = {}
    for _, line in numbered_lines(path):
        if line.startswith("["):
            break
        tag, _, value = line.partition(":")
        header.setdefault(tag, value.strip())
    entities = _class_entities(path, _obo_terms(path), header.get("default-namespace"))
    return Source(united(entities), version=header.get("data-version"))


def _obo_terms(path: Path) -> Iterator[Class]:
    broken: list[Line] = []
    for lines in _obo_frames(path):
        try:
            id, facts = _obo_facts("\n".join(line for _, line in lines))
        except _NOT_OBO:
            id, facts = _facts_of_each(path, lines, broken)
        yield f"{path}, line {lines[0][0]}", id, facts
    if broken:
        logger.warning(
            "%s: left out %d clauses that break the OBO grammar, the first in line %d: %s",
            path, len(broken), broken[0][0], broken[0][1][:80],
        )  # fmt: skip


def _obo_frames(path: Path) -> Iterator[list[Line]]:
    """Of each term the lines that are read here."""
    lines: list[Line] = []
    is_term, size = False, 0
    for number, line in numbered_lines(path):
        size += len(line)
        if line.startswith("["):
            if lines:
                yield lines
            lines, is_term, size = [], line.startswith("[Term]"), 0
        elif is_term and line.partition(":")[0] in ("id", *_VALUES):
            if size > LONGEST_LINE:
                raise record_too_long(path, number)
            lines.append((number, line))
    if lines:
        yield lines


_NOT_OBO = (SyntaxError, ValueError)  # of fastobo


def _facts_of_each(path: Path, lines: list[Line], broken: list[Line]) -> tuple[str, Facts]:
    """The id and facts of a term whose clauses are parsed one by one; bad ones go to ``broken``."""
    id, facts = "", {}
    for number, line in lines:
        quoted = _QUOTED.match(line)
        texts = (line, f"{quoted[0]} []") if quoted else (line,)
        for text in texts:
            try:
                own, clauses = _obo_facts(f"id: x:1\n{text}" if id else text)
            except _NOT_OBO as error:
                if not id or line.startswith(("id:", "name:")):
                    problem = f"{path}, line {number}: cannot be parsed as OBO: {line[:80]!r}"
                    raise PelError(problem, "correct the line") from error
            else:
                id = id or own
                for tag, values in clauses.items():
                    facts.setdefault(tag, []).extend(values)
                break
        else:
            broken.append((number, line))
    return id, facts


def _obo_facts(clauses: str) -> tuple[str, Facts]:
    """The id and facts of a term's clauses; one of ``_NOT_OBO`` if they break the grammar."""
    import fastobo

    frame = fastobo.loads(f"[Term]\n{clauses}\n", threads=1)[0]
    facts: Facts = {}
    for clause in frame:
        tag = clause.raw_tag()
        if value := attrgetter(_VALUES[tag])(clause):  # is_obsolete may be False
            facts.setdefault(tag, []).append(_unescaped(value))
    return _unescaped(frame.id), facts


def _unescaped(value: Any) -> str:
    """A text, or an identifier without OBO's backslashes."""
    if hasattr(value, "local"):
        return f"{value.prefix}:{value.local}"
    return str(getattr(value, "unescaped", value))


# OWL and OBO Graphs

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
    """The facts of properties, values and languages; the best property and language come first.

    Texts in other languages than English count only where there is no other.
    """
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
    if not begins_with(path, b"rdf:RDF"):
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
    return Source(united(_class_entities(path, _owl_classes(path))), version=version)


def _owl_classes(path: Path) -> Iterator[Class]:
    for element in file_elements(path, longest_entity=_LONGEST_ENTITY):
        iri = element.get(f"{_RDF}about") or element.get(f"{_RDF}ID")
        types = {type.get(f"{_RDF}resource") for type in element.iterfind(f"{_RDF}type")}
        if iri and (element.tag == f"{_OWL}Class" or f"{_OWL[1:-1]}Class" in types):
            values = (
                (
                    child.tag.lstrip("{").replace("}", ""),
                    child.get(f"{_RDF}resource") or (child.text or "").strip(),
                    child.get(_LANGUAGE) or "en",
                )
                for child in element
            )
            yield f"{path}, class {curie(iri)}", curie(iri), _facts(values)


_MOST = 2**30  # bytes of a file that is held in memory


def read_obo_graph(path: Path, options: ReadOptions) -> Source:
    """The classes of a ``.json`` file, as ``_class_entities`` makes them; ids as of ``curie``."""
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
    return Source(united(_class_entities(path, classes)), version=version)


def _graph_classes(graph: dict[str, Any]) -> Iterator[tuple[str, Facts]]:
    of_graph = (graph.get("meta") or {}).get("basicPropertyValues") or ()
    names = ("hasDefaultNamespace", "default-namespace")
    default = [each["val"] for each in of_graph if curie(each["pred"]) in names]
    parents: dict[str, list[str]] = {}
    for edge in graph.get("edges") or ():
        if edge["pred"] == "is_a":
            parents.setdefault(edge["sub"], []).append(edge["obj"])
    for node in graph.get("nodes") or ():
        if node.get("type", "CLASS") == "CLASS":
            meta = node.get("meta") or {}
            properties = meta.get("basicPropertyValues") or ()
            values = [
                ("label", node.get("lbl") or ""),
                ("definition", (meta.get("definition") or {"val": ""})["val"]),
                ("deprecated", "true" if meta.get("deprecated") else ""),
                *(("hasExactSynonym", each["val"]) for each in meta.get("synonyms") or ()),
                *(("hasDbXref", each["val"]) for each in meta.get("xrefs") or ()),
                *(("subClassOf", parent) for parent in parents.get(node["id"], ())),
                *((each["pred"], each["val"]) for each in properties),
            ]
            facts = _facts((*value, "en") for value in values)
            yield curie(node["id"]), {"namespace": default, **facts}


OBO = SourceFormat("obo", read_obo, ("*.obo",))
OBO_GRAPH = SourceFormat(
    "obo-graph", read_obo_graph, ("*.json",), partial(begins_with, mark=b'"graphs"')
)
OWL = SourceFormat("owl", read_owl, ("*.owl",))
