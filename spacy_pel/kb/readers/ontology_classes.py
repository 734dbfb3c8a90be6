"""Classes of ontologies in OWL and OBO Graph JSON, as entities."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .obo import Facts, retired_ids, term_entity

logger = logging.getLogger(__name__)

OntologyClass = tuple[str, Facts]  # id, and values by the tags of OBO

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


def class_entities(path: Path, read: Callable[[], Iterator[OntologyClass]]) -> Iterator[Entity]:
    """The entities of the classes that have a name and are not obsolete.

    The log says how many have no name.

    Args:
        path: The file, for messages.
        read: Reads the classes; it is called twice.

    Raises:
        PelError: With file and class, for what ``cleaned`` refuses.
    """
    retired = retired_ids(
        {
            id: facts["replaced_by"][0]
            for id, facts in read()
            if facts.get("is_obsolete") and len(facts.get("replaced_by", ())) == 1
        }
    )
    nameless = 0
    for id, facts in read():
        if facts.get("is_obsolete"):
            continue
        if facts.get("name"):
            known = {tag: values for tag, values in facts.items() if values}
            yield cleaned_at(f"{path}, class {id}", term_entity(id, known, None, retired))
        else:
            nameless += 1
    if nameless:
        logger.warning("%s: skipped %d classes without a name", path, nameless)
