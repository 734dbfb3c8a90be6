"""The entities of semantic types, or of a branch of an ontology."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.records.semantic_types import with_descendants

PAPER = "paper"
# The eleven types of the paper's data set from MedMentions (the paper names one of them twice). Types
# below them are left out: the paper names "Health Care Activity" and two of the three types below it.
PAPER_TYPES = {
    "Mental Process": "T041",
    "Health Care Related Organization": "T093",
    "Element, Ion, or Isotope": "T196",
    "Medical Device": "T074",
    "Health Care Activity": "T058",
    "Diagnostic Procedure": "T060",
    "Professional or Occupational Group": "T097",
    "Laboratory Procedure": "T059",
    "Regulation or Law": "T089",
    "Organization": "T092",
    "Professional Society": "T094",
}


def entities_of_types(
    kb: KnowledgeBase, types: Sequence[str], entities: Iterable[Entity] | None = None
) -> set[str]:
    """The concept ids of all entities of some types.

    Args:
        kb: The KB.
        types: Each is one of the following. The name or code of a semantic type of the KB, such as
            "T058": the entities of it and of the types below it. "paper": the entities of
            PAPER_TYPES, without the types below them. The id or name of an entity, such as "Nervous
            System Diseases": this entity and all below it by their ``parents``, for example a branch
            of MeSH.
        entities: All entities of the KB, for example wrapped to show progress. None: ``kb`` is
            read.

    Raises:
        PelError: A type is none of these, or no entity is of the types.
    """
    names, roots = _names_and_roots(kb, types)
    ids: set[str] = set()
    children: defaultdict[str, list[str]] = defaultdict(list)
    for entity in kb if entities is None else entities:
        if not names.isdisjoint(entity.types):
            ids.add(entity.concept_id)
        if roots:
            for parent in entity.parents:
                children[parent].append(entity.concept_id)
    found = ids | _branches(roots, children)
    if not found:
        raise PelError(f"{kb.path}: no entity is of {', '.join(types)}", "choose other types")
    return found


def _names_and_roots(kb: KnowledgeBase, types: Sequence[str]) -> tuple[set[str], set[str]]:
    """The names of semantic types, and the ids of the entities above branches."""
    semantic_types = kb.semantic_types
    known = {text for type in semantic_types for text in (type.name, type.code)}
    names: set[str] = set()
    roots: set[str] = set()
    for text in types:
        if text == PAPER:
            names.update(PAPER_TYPES)
        elif text in known:
            names |= with_descendants([text], semantic_types)
        else:
            roots.add(_root(kb, text))
    return names, roots


def _root(kb: KnowledgeBase, text: str) -> str:
    if text in kb:
        return kb[text].concept_id
    named = [entity for entity in kb.named(text) if entity.canonical_name.lower() == text.lower()]
    if len(named) != 1:
        raise PelError(
            f"{kb.path}: {text!r} is no semantic type in it, and {len(named)} entities are called "
            "so",
            "give a type as python -m spacy pel kb info lists them, or the id of an entity",
        )
    return named[0].concept_id


def _branches(roots: set[str], children: dict[str, list[str]]) -> set[str]:
    found = set(roots)
    waiting = list(roots)
    while waiting:
        below = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(below)
        waiting += below
    return found
