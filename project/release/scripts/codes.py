"""Add the codes of other vocabularies to MeSH: those of terms that mean the same as a record.

The terms are those of MONDO, DOID, HPO and ChEBI, and of the tabular list of ICD-10-CM. Codes of broader or
narrower terms are left out.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import typer
from mesh_alone import folded
from prepare import write_entities
from wasabi import msg

from spacy_pel.io.lines import numbered_lines
from spacy_pel.io.xml_elements import file_elements
from spacy_pel.kb import Entity, open_source
from spacy_pel.kb.records.names import normalised

# The types of the records that are named like terms of an ontology. A reference needs no type.
_DISEASES = frozenset({"Disease", "Diseases", "Psychiatry and Psychology"})
_CHEMICALS = frozenset({"Chemical or Drug", "Chemicals and Drugs"})
_ICD = "ICD10CM"
_TYPES = {
    **dict.fromkeys(("MONDO", "DOID", "HP", _ICD), _DISEASES),
    "CHEBI": _CHEMICALS,
}
# The names that an entity and a term have in common if none of them is the entity's preferred name. Names of
# diseases in MeSH may be narrower: "Day Blindness" for vision disorders.
_SHARED = {**dict.fromkeys(_TYPES, 2), "CHEBI": 1}
# The vocabularies that are kept, by the prefixes that ontologies write.
_VOCABULARIES = {
    **dict.fromkeys(("UMLS", "UMLS_CUI"), "UMLS"),
    **dict.fromkeys(("SCTID", "SNOMEDCT_US", "SNOMED_CT"), "SNOMEDCT_US"),
    **dict.fromkeys(("Orphanet", "ORDO", "ORPHA"), "Orphanet"),
    **{name: name for name in ("OMIM", "CAS", "PUBCHEM", *_TYPES)},
}
_KEPT = ("CAS", "CHEBI", "PUBCHEM", "UNII")  # codes that a record may bring along
_RELEASE = re.compile(r"_20\d\d_\d\d_\d\d$")  # of SNOMED CT, as DOID writes it
_OF_MESH = re.compile(r"(?:MESH|MSH):([CD]\d+)").fullmatch
_CUI = re.compile(r"C\d{7}").fullmatch
_EQUIVALENT = "MONDO:equivalentTo"


# How ICD-10-CM writes that a name has no narrower meaning, and modifiers that may be missing.
_UNSPECIFIED = re.compile(
    r"(?:,? (?:unspecified|NOS|not elsewhere classified|not otherwise specified)|^unspecified )",
    re.IGNORECASE,
)
_MODIFIERS = re.compile(r"\s*\([^()]*\)")
_SPECIAL = re.compile(r"ICD10CM:[V-Z]")  # external causes, and reasons for contacts


def main(source: Path, output: Path, ontologies: list[Path]) -> None:
    """Write the entities of SOURCE (.jsonl.gz) with codes to OUTPUT.

    ONTOLOGIES are OBO files, and ICD-10-CM in XML. The first one with a code of a vocabulary gives it.
    """
    entities = list(open_source(source).entities)
    read = [read_icd(path) if ".xml" in path.name else read_ontology(path) for path in ontologies]
    coded = with_codes(entities, read)
    write_entities(output, coded)
    coded_with = Counter(
        name for entity in coded for name in {code.partition(":")[0] for code in entity.xrefs}
    )
    msg.info("Entities with a code: " + ", ".join(f"{v} {n:,}" for v, n in coded_with.items()))


class Ontology(NamedTuple):
    """The terms of an ontology.

    Attributes:
        name: The prefix of its ids.
        terms: Its terms by id, with codes as ``xrefs``.
        of_mesh: The ids of the terms that refer to a record of MeSH, by its id.
        named: The ids of the terms with a name, by the folded name.
    """

    name: str
    terms: Mapping[str, Entity]
    of_mesh: Mapping[str, list[str]]
    named: Mapping[str, set[str]]

    def broadest(self, ids: Iterable[str]) -> str | None:
        """Return the term above all others of some terms; None if there is none."""
        given = set(ids)
        tops = [id for id in given if all(id in self.above(other) for other in given - {id})]
        return tops[0] if tops else None

    def above(self, id: str) -> set[str]:
        """Return the ids of the terms above a term."""
        found: set[str] = set()
        waiting = [id]
        while waiting:
            term = self.terms.get(waiting.pop())
            new = set(term.parents) - found if term else set()
            found |= new
            waiting += new
        return found


def read_ontology(path: Path) -> Ontology:
    """Read an OBO file. A code that several terms share is that of the term whose kinds the others are."""
    exact = equivalents(path)
    entities = [entity for entity in open_source(path).entities if not entity.retired_ids]
    [(name, _)] = Counter(e.concept_id.partition(":")[0] for e in entities).most_common(1)
    terms: dict[str, Entity] = {}
    of_mesh: defaultdict[str, list[str]] = defaultdict(list)
    named: defaultdict[str, set[str]] = defaultdict(set)
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for entity in entities:
        id = entity.concept_id
        if not id.startswith(f"{name}:"):
            continue
        references = [x for x in entity.xrefs if exact is None or (id, x) in exact]
        terms[id] = entity._replace(xrefs=(id, *codes(references)))
        for code in dict.fromkeys(terms[id].xrefs):
            owners[code].append(id)
        for reference in references:
            if match := _OF_MESH(reference):
                of_mesh[match[1]].append(id)
        scopes = entity.scopes
        for alias in entity.names:
            if scopes.get(alias, "exact") == "exact":
                named[key_of(alias)].add(id)
    ontology = Ontology(name, terms, of_mesh, named)
    for code, ids in owners.items():
        top = ontology.broadest(ids)
        if top and not all(
            key_of(terms[top].canonical_name) in key_of(terms[id].canonical_name) for id in ids
        ):
            top = None
        for id in ids:
            if id != top:
                terms[id] = terms[id]._replace(xrefs=tuple(x for x in terms[id].xrefs if x != code))
    return ontology


def read_icd(path: Path) -> Ontology:
    """Read the tabular list of ICD-10-CM in XML.

    A name that several codes have is that of the code whose title it is; then of the code of the
    unspecified kind; then of the code that includes it.
    """
    terms: dict[str, Entity] = {}
    ranks: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for record in chain.from_iterable(chapter.iter("diag") for chapter in file_elements(path)):
        id = f"{_ICD}:{record.findtext('name', '')}"
        if _SPECIAL.match(id) or "classified elsewhere" in record.findtext("desc", ""):
            continue
        included = [note.text or "" for note in record.iterfind("inclusionTerm/note")]
        names = []
        for place, text in enumerate([record.findtext("desc", ""), *included]):
            name = _UNSPECIFIED.sub("", plain := _MODIFIERS.sub("", text).strip())
            rank = 1 if name != plain else 2 if place else 0
            known = ranks[key_of(name)]
            known[id] = min(rank, known.get(id, rank))
            names.append(name)
        terms[id] = Entity(id, names[0], tuple(names[1:]), xrefs=(id,))
    named = {
        key: {id for id, rank in known.items() if rank == min(known.values())}
        for key, known in ranks.items()
    }
    for ids in named.values():
        first = min(ids, key=len)
        if all(id.startswith(first) for id in ids):  # a code and those below it
            ids.intersection_update({first})
    return Ontology(_ICD, terms, {}, named)


def equivalents(path: Path) -> set[tuple[str, str]] | None:
    """Return the pairs of term and reference that a file of MONDO calls equivalent.

    None if the file calls none so: all of its references are exact then.
    """
    pairs, id = set(), ""
    for _, line in numbered_lines(path):
        tag, _, value = line.partition(": ")
        if tag == "id":
            id = value.strip()
        elif tag == "xref" and _EQUIVALENT in value:
            pairs.add((id, value.split()[0]))
    return pairs or None


def codes(references: Iterable[str]) -> Iterator[str]:
    """Yield the references to the kept vocabularies, as the vocabulary's name and a code."""
    for reference in references:
        prefix, _, code = reference.partition(":")
        name = _VOCABULARIES.get(_RELEASE.sub("", prefix))
        if name and (name != "UMLS" or _CUI(code)):
            yield f"{name}:{code}"


def key_of(name: str) -> str:
    """Return a name as it is compared: no case, punctuation or British spelling."""
    return folded(normalised(name))


def any_order(key: str) -> list[str]:
    """Return the words of a folded name in one order, without the endings of plurals."""
    return sorted(word.removesuffix("s") for word in key.split())


def with_codes(entities: list[Entity], ontologies: list[Ontology]) -> list[Entity]:
    """Return the entities with the codes of the terms that mean the same as their ``xrefs``."""
    found: list[list[str]] = [
        [code for code in entity.xrefs if code.partition(":")[0] in _KEPT] for entity in entities
    ]
    keys = [[*map(key_of, entity.names)] for entity in entities]
    for ontology in ontologies:
        for own, id in zip(found, matches(entities, keys, ontology)):
            known = {code.partition(":")[0] for code in own}
            new = ontology.terms[id].xrefs if id else ()
            own += [code for code in new if code.partition(":")[0] not in known]
    return [entity._replace(xrefs=tuple(own)) for entity, own in zip(entities, found)]


def matches(entities: list[Entity], keys: list[list[str]], ontology: Ontology) -> list[str | None]:
    """Return the id of the term of an ontology that means the same as each entity, or None.

    ``keys`` are the folded names of each entity, the preferred one first. A term means the same if it is
    the only one that refers to the entity, and to no other. Among several, it is the one with the preferred
    name, the only one with a name, or the one above the others. An entity without references means the same
    as a term with its preferred name, or as one whose preferred name it has with ``_SHARED`` names in all.
    A name of several entities or terms decides nothing.
    """
    types, needed = _TYPES[ontology.name], _SHARED[ontology.name]
    is_typed = [bool(types.intersection(entity.types)) for entity in entities]
    owners = Counter(key for own, typed in zip(keys, is_typed) if typed for key in set(own))
    n_references = Counter(id for ids in ontology.of_mesh.values() for id in ids)
    preferred_names = {id: key_of(term.canonical_name) for id, term in ontology.terms.items()}
    chosen: list[str | None] = []
    for entity, own, typed in zip(entities, keys, is_typed):
        terms = ontology.of_mesh.get(entity.concept_id, [])
        named = {key: ontology.named[key] for key in own if key in ontology.named}
        # Inverted and plural forms count: "Diabetes, Type 2" and "Type 2 Diabetes".
        preferred = {key for key in named if any_order(key) == any_order(own[0])}
        alike = set[str]().union(*map(named.__getitem__, preferred))
        if len(terms) > 1 or any(n_references[id] > 1 for id in terms):
            others = set[str]().union(*named.values())
            terms = [id for id in terms if id in alike] or [id for id in terms if id in others]
            terms = [top] if (top := ontology.broadest(terms)) else terms
        elif not terms and typed:
            shared = Counter(
                id for key, ids in named.items() if owners[key] == len(ids) == 1 for id in ids
            )
            terms = [id for id in alike if id in shared] or [
                id for id, n in shared.items() if n >= needed and preferred_names[id] in named
            ]
            terms = [id for id in terms if id not in n_references]
        chosen.append(terms[0] if len(terms) == 1 else None)
    return chosen


if __name__ == "__main__":
    typer.run(main)
