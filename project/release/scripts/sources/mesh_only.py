"""MeSH without the names and ids that MEDIC and OMIM add to it.

MEDIC, CTD's vocabulary of diseases, puts names of OMIM into the records of MeSH. Names of MeSH may
be passed on; names of MEDIC and OMIM may not.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from spacy_pel.kb import Entity

_MESH_ID = re.compile(r"[CD]\d+")
# The one type of MEDIC, and the branch of MeSH that holds the same.
_MEDIC_TYPE, _MESH_BRANCH = "Disease", "Diseases"

Names = Mapping[str, frozenset[str]]  # folded, by id


class Vocabularies(NamedTuple):
    """The names of both sources, as far as they are known.

    Attributes:
        mesh: Names of MeSH's descriptors. They may be of an older year.
        medic: Names of MEDIC's diseases.
    """

    mesh: Names
    medic: Names


def folded(name: str) -> str:
    """A name as it is compared: without case, and with American spelling."""
    name = " ".join(html.unescape(name).casefold().split())
    return name.replace("ae", "e").replace("oe", "e").replace("our", "or")


def mesh_only(
    entities: Iterable[Entity], known: Vocabularies, left_out: Counter[str]
) -> Iterator[Entity]:
    """The entities of MeSH, with names and alternative ids of MeSH.

    Args:
        entities: MeSH joined with MEDIC.
        known: Names of both.
        left_out: Is filled with the numbers of entities, ids and names that stay out.
    """
    for entity in entities:
        name, *others = dict.fromkeys(map(html.unescape, entity.names))
        if not _is_mesh_id(entity.concept_id):
            left_out.update(entities=1, names=1 + len(others))
            continue
        alt_ids = tuple(filter(_is_mesh_id, entity.alt_ids))
        # MEDIC calls a record of MeSH by its name in MeSH: the canonical name always stays.
        aliases = tuple(other for other in others if _is_mesh_name(other, entity, known))
        left_out.update(ids=len(entity.alt_ids) - len(alt_ids), names=len(others) - len(aliases))
        types = tuple(_MESH_BRANCH if type == _MEDIC_TYPE else type for type in entity.types)
        yield entity._replace(canonical_name=name, aliases=aliases, alt_ids=alt_ids, types=types)


def _is_mesh_name(name: str, entity: Entity, known: Vocabularies) -> bool:
    """Whether a name of an entity stands in MeSH, as far as it can be told."""
    key, in_mesh = folded(name), known.mesh.get(entity.concept_id)
    if in_mesh is not None and key in in_mesh:
        return True
    ids = (entity.concept_id, *entity.alt_ids)
    if in_mesh is not None and any(key in known.medic.get(id, ()) for id in ids):
        return False
    # No list has all names of a supplementary record, or of a later year. What MEDIC adds there are
    # names of OMIM, to records with an id of OMIM. They are capitals: "CMT4B1", "PARAPLEGIA 5B".
    has_omim = not all(map(_is_mesh_id, entity.alt_ids))
    return not (has_omim and _is_in_capitals(name))


def _is_mesh_id(id: str) -> bool:
    return _MESH_ID.fullmatch(id) is not None


def _is_in_capitals(name: str) -> bool:
    """Whether most letters are capitals: of "CHROMOSOME Xq28 DELETION SYNDROME" too."""
    letters = [character for character in name if character.isalpha()]
    return sum(map(str.isupper, letters)) > len(letters) / 2
