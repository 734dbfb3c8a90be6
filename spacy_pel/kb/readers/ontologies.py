"""Stream ontologies in OBO, and in OWL (RDF/XML, as ROBOT and Protégé write it).

Libraries (pronto, fastobo, rdflib, owlready2, py-horned-owl) load whole files, or refuse faulty OBO.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from ...errors import PelError
from ...io.lines import MAX_LINE_BYTES, numbered_lines, opened_bytes, record_too_long
from ...io.xml_elements import file_elements
from ..records.entity import SCOPES, Entity, cleaned_at, ends_of
from .entity_source import ReadOptions, Source, SourceFormat
from .imported_classes import id_prefix, own_entities

logger = logging.getLogger(__name__)

Facts = dict[str, list[str]]  # the values of a class by tags of OBO
Class = tuple[str, str, Facts]  # its place, id and facts
_SCOPED = [f"{scope}_names" for scope in SCOPES]  # facts that are synonyms, too

# The tags of OBO for properties, by their names (``curie``). A name or definition is taken from the
# property that is listed first. P108, P97, P90 and P106 are codes of NCIt. The scope of synonyms of SKOS,
# EFO, ORDO and NCIt is not known.
_TAGS = {
    **dict.fromkeys(("label", "prefLabel", "P108"), "name"),
    **dict.fromkeys(("IAO:0000115", "definition", "P97"), "def"),
    "hasExactSynonym": "exact_names",
    "hasRelatedSynonym": "related_names",
    "hasNarrowSynonym": "narrow_names",
    "hasBroadSynonym": "broad_names",
    **dict.fromkeys(("hasSynonym", "IAO:0000118", "altLabel", "hiddenLabel"), "synonym"),
    **dict.fromkeys(("alternative:term", "P90"), "synonym"),  # of EFO and ORDO; of NCIt
    **dict.fromkeys(("IAO:0100001", "replacedBy"), "replaced_by"),
    "hasDbXref": "xref",
    "hasOBONamespace": "namespace",
    "P106": "namespace",
    "hasAlternativeId": "alt_id",
    "deprecated": "is_obsolete",
    "subClassOf": "is_a",
}


def _add(facts: Facts, tag: str, value: str) -> None:
    for name in ("synonym", tag) if tag in _SCOPED else (tag,):
        facts.setdefault(name, []).append(value)


def _source(
    path: Path,
    classes: Iterable[Class],
    ontology: str,
    version: str | None,
    options: ReadOptions,
    namespace: str | None = None,
) -> Source:
    """Return the entities of classes that have a name and are not obsolete.

    Synonyms of every scope are aliases. The type is the namespace of the class, or else ``namespace``.
    The source is the prefix of the id. An obsolete id that exactly one class replaces becomes a retired
    id of that class. ``own_entities`` leaves out classes of other ontologies.
    """
    left_out = Counter[str]()

    def entities() -> Iterator[Entity]:
        replaced_by: dict[str, str] = {}
        known: dict[str, Entity] = {}
        current = _current(path, classes, namespace, replaced_by)
        for entity in own_entities(current, ontology, options.prefixes, left_out):
            id, name = entity[:2]
            known.setdefault(id, Entity(id, name, sources=entity.sources))
            yield entity
        ends = ends_of(replaced_by)
        for retired in sorted(replaced_by):
            if replacing := known.get(ends[retired]):  # joined with the record above
                yield replacing._replace(retired_ids=(retired,))
        if left_out:
            prefixes = ", ".join(f"{prefix} ({n:,})" for prefix, n in left_out.most_common())
            message = "%s: left out %s classes of other ontologies; --prefix keeps them: %s"
            logger.warning(message, path, f"{left_out.total():,}", prefixes)

    return Source(entities(), version=version, left_out=left_out)


def _current(
    path: Path, classes: Iterable[Class], namespace: str | None, replaced_by: dict[str, str]
) -> Iterator[Entity]:
    """Yield the entities of classes. ``replaced_by`` receives what replaces those that are obsolete."""
    nameless = 0
    for place, id, facts in classes:
        if facts.get("is_obsolete"):
            if len(facts.get("replaced_by", ())) == 1:
                [replaced_by[id]] = facts["replaced_by"]
        elif facts.get("name"):
            entity = Entity(
                concept_id=id,
                canonical_name=facts["name"][0],
                aliases=tuple(facts.get("synonym", ())),
                types=tuple(facts.get("namespace") or filter(None, [namespace])),
                definition=next(iter(facts.get("def", ())), None),
                alt_ids=tuple(facts.get("alt_id", ())),
                parents=tuple(facts.get("is_a", ())),
                xrefs=tuple(facts.get("xref", ())),
                sources=tuple(filter(None, [id_prefix(id)])),
                **{names: tuple(facts.get(names, ())) for names in _SCOPED},
            )
            yield cleaned_at(place, entity)
        else:
            nameless += 1
    if nameless:
        logger.warning("%s: skipped %d classes without a name", path, nameless)


# OBO

# Modifiers and a comment may end each clause. Both follow a blank: the braces of
# "N(4)-{beta-D-GlcNAc}-Asn residue" are part of the name.
_MODIFIER = r'[^\s={}"]+="(?:[^"\\]|\\.)*"'
_MODIFIERS = rf"\{{\s*{_MODIFIER}(?:\s*,\s*{_MODIFIER})*\s*\}}"
_END = rf"(?:(?<=\s){_MODIFIERS}\s*)?(?:(?<=\s)!.*)?\Z"
_UNQUOTED_END = re.compile(_END)
# After the text of a definition or synonym: scope, type, list of references.
_QUOTED_END = re.compile(
    r'"\s*(?:(?:EXACT|BROAD|NARROW|RELATED)\b\s*)?(?:[^\s"{[!]+\s*)?'
    rf'(?:\[(?:[^\]"\\]|\\.|"(?:[^"\\]|\\.)*")*\]\s*)?{_END}'
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MAX_MENDED = 2_000  # characters of a line: the time of mending quotes grows with its square
_SCOPE = re.compile(r'"\s*(EXACT|BROAD|NARROW|RELATED)\b')
_ANNOTATION = re.compile(r'\s*(\S+)\s+(?=")')
_IDENTIFIER = re.compile(r"((?:[^\s\\]|\\.)+)(?=\s|\Z)")
_ID = re.compile(rf"{_IDENTIFIER.pattern}\s*(?:[!{{].*)?\Z")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "W": " "}


def _unquoted(text: str) -> str | None:
    end = _UNQUOTED_END.search(text)
    return (text[: end.start()] if end else text).strip() or None


def _quoted(text: str) -> str | None:
    """Return the text in quotes. It may contain quotes that should have been escaped."""
    match = _QUOTED.match(text)
    if match and not _QUOTED_END.match(text, match.end() - 1) and len(text) < _MAX_MENDED:
        for quote in re.finditer('"', text[match.end() :]):
            end = match.end() + quote.start()
            if text[end - 1] != "\\" and _QUOTED_END.match(text, end):
                return text[1:end]
    return match[1] if match else None


def _first(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    def read(text: str) -> str | None:
        match = pattern.match(text)
        return match[1] if match else None

    return read


# How to read the value of each clause, with its escapes; None if it cannot be read.
_CLAUSES: dict[str, Callable[[str], str | None]] = {
    "id": _first(_ID),
    **dict.fromkeys(("alt_id", "xref", "is_a", "is_obsolete", "replaced_by"), _first(_IDENTIFIER)),
    **dict.fromkeys(("name", "namespace"), _unquoted),
    **dict.fromkeys(("def", "synonym", *_SCOPED), _quoted),
}


def read_obo(path: Path, options: ReadOptions) -> Source:
    """Read the terms of an ``.obo`` file; see ``_source``.

    Frames with the same id become one entity, as the format requires. Therefore, files may be concatenated.
    An unreadable clause is skipped and counted.

    Raises:
        PelError: An id or a name is unreadable.
    """
    header: dict[str, str] = {}
    for _, line in numbered_lines(path):
        if line.startswith("["):
            break
        tag, _, value = line.partition(":")
        header.setdefault(tag, value.strip())
    names = (header.get(tag) for tag in ("ontology", "data-version", "default-namespace"))
    ontology, version, namespace = names
    return _source(path, _obo_terms(path), ontology or "", version, options, namespace)


def _annotation_tag(property: str) -> str:
    """Return the tag of a text that annotates a class, such as skos:altLabel; "" if it is ignored."""
    name = curie(property)
    tag = _TAGS.get(name) or _TAGS.get(name.rpartition(":")[2], "")
    return tag if tag in ("def", "synonym", *_SCOPED) else ""


def _obo_terms(path: Path) -> Iterator[Class]:
    facts: Facts = {}
    is_term, size, broken = False, 0, []
    for number, line in chain(numbered_lines(path), [(0, "[")]):
        tag, _, text = line.partition(":")
        place, size = f"{path}, line {number}", size + len(line)
        if line.startswith("["):
            if facts:
                yield f"{path}, term {facts['id'][0]}", facts["id"][0], facts
            is_term, facts, size = line.startswith("[Term]"), {}, 0
            continue
        if is_term and tag == "property_value" and (annotation := _ANNOTATION.match(text)):
            tag, text = _annotation_tag(annotation[1]), text[annotation.end() :]
        if is_term and tag in _CLAUSES:
            if size > MAX_LINE_BYTES:
                raise record_too_long(path, number)
            text = text.lstrip()
            escaped = _CLAUSES[tag](text)
            if tag == "synonym" and (scope := _SCOPE.match(text, len(escaped or "") + 1)):
                tag = f"{scope[1].lower()}_names"
            if escaped and ("id" in facts) == (tag != "id"):
                value = _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), escaped)
                if (tag, value) != ("is_obsolete", "false"):
                    _add(facts, tag, value)
            elif tag in ("id", "name") or "id" not in facts:
                problem = f"{place}: cannot be parsed as OBO: {line[:80]!r}"
                raise PelError(problem, "correct the line")
            else:
                broken.append(f"{number}: {line[:80]}")
    if broken:
        message = "%s: left out %d clauses, the first in line %s"
        logger.warning(message, path, len(broken), broken[0])


# OWL

_THING = "http://www.w3.org/2002/07/owl#Thing"  # above all classes: no parent in a KB
_RANKS = {property: rank for rank, property in enumerate(_TAGS)}
_IDENTIFIERS = ("xref", "alt_id", "replaced_by", "is_a")

_LAST = re.compile(r"(?:[a-z][a-z0-9+.-]*://.*[/#=]|#)([^/#=]+)", re.IGNORECASE)
_PREFIXED = re.compile(r"([A-Za-z][A-Za-z0-9.]*)_([A-Za-z0-9][A-Za-z0-9.-]*)")


def curie(iri: str) -> str:
    """Return an IRI as in OBO: "MONDO:0005301" for "http://purl.obolibrary.org/obo/MONDO_0005301".

    Shorten other IRIs to the part after the last "#", "=" or "/". Leave a text that is no IRI unchanged.
    """
    last = _LAST.fullmatch(iri)
    if last is None:
        return iri
    prefixed = _PREFIXED.fullmatch(last[1])
    return f"{prefixed[1]}:{prefixed[2]}" if prefixed else last[1]


def _facts(values: Iterable[tuple[str, str, str]]) -> Facts:
    """Return the facts of triples of property, value and language, best first, in English if possible."""
    ranked = []
    for property, value, language in values:
        name = curie(property)
        if name in _TAGS and value not in ("", _THING):
            is_foreign = language.lower().partition("-")[0] != "en"
            ranked.append((is_foreign, _RANKS[name], _TAGS[name], value))
    facts: Facts = {}
    for is_foreign, _, tag, value in sorted(ranked, key=lambda fact: fact[:2]):
        if not (is_foreign and ("synonym" if tag in _SCOPED else tag) in facts):
            _add(facts, tag, curie(value) if tag in _IDENTIFIERS else value)
    names = facts.get("name", [])
    return {
        **facts,
        "name": names[:1],
        "synonym": [s for s in (*names[1:], *facts.get("synonym", ())) if s not in names[:1]],
        "is_obsolete": [value for value in facts.get("is_obsolete", ()) if value == "true"],
    }


_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_OWL = "{http://www.w3.org/2002/07/owl#}"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_owl(path: Path, options: ReadOptions) -> Source:
    """Read the named classes of an ``.owl`` file; see ``_source`` and, for ids, ``curie``."""
    with opened_bytes(path) as file:
        head = file.read(1 << 16)
    if b"rdf:RDF" not in head:
        remedy = f"convert it: robot convert --input {path.name} --output {path.name}.obo"
        raise PelError(f"{path}: not OWL in RDF/XML", remedy)
    ontology, version = "", None
    for element in file_elements(path):
        if element.tag == f"{_OWL}Ontology":
            iri = element.find(f"{_OWL}versionIRI")
            info = element.findtext(f"{_OWL}versionInfo")
            ontology = element.get(f"{_RDF}about", "")
            version = info if iri is None else iri.get(f"{_RDF}resource")
        if element.tag in (f"{_OWL}Ontology", f"{_OWL}Class"):
            break
    return _source(path, _owl_classes(path), ontology, version, options)


def _owl_classes(path: Path) -> Iterator[Class]:
    """Yield the named classes. If none has a synonym, warn of the annotations that were ignored."""
    has_synonyms, ignored = False, Counter[str]()
    for element in file_elements(path):
        iri = element.get(f"{_RDF}about") or element.get(f"{_RDF}ID")
        types = {type.get(f"{_RDF}resource") for type in element.iterfind(f"{_RDF}type")}
        if iri and (element.tag == f"{_OWL}Class" or f"{_OWL[1:-1]}Class" in types):
            tags = [child.tag.lstrip("{").replace("}", "") for child in element]
            values = (c.get(f"{_RDF}resource") or (c.text or "").strip() for c in element)
            languages = (child.get(_LANGUAGE) or "en" for child in element)
            facts = _facts(zip(tags, values, languages))
            has_synonyms = has_synonyms or bool(facts["synonym"])
            ignored.update(
                re.split("[#/]", tag)[-1]
                for tag, child in zip(tags, element)
                if (child.text or "").strip() and curie(tag) not in _TAGS
            )
            yield f"{path}, class {curie(iri)}", curie(iri), facts
    if ignored and not has_synonyms:
        counts = ", ".join(f"{name} ({n:,})" for name, n in ignored.most_common(10))
        logger.warning(
            "%s: no class has a synonym; annotations that were ignored: %s", path, counts
        )


OBO = SourceFormat("obo", read_obo, ("*.obo",))
OWL = SourceFormat("owl", read_owl, ("*.owl",))
