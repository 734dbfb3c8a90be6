"""The vocabularies of a knowledge base's cross-references, such as SNOMEDCT_US and ICD10CM."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ..errors import PelError
from .knowledge_base import KnowledgeBase

_LOOKED_AT = 10_000  # entities, for the names in an error


def check_vocabularies(kb: KnowledgeBase, vocabularies: Iterable[str]) -> None:
    """Check that a KB has codes in each vocabulary, as a misspelt name would give none in silence.

    Args:
        kb: The knowledge base. At worst all its records are read, which takes seconds for millions.
        vocabularies: Names of vocabularies; see ``Entity.codes``.

    Raises:
        PelError: No entity has a code in one of them.
    """
    for name in vocabularies:
        if not kb.has_codes(name):
            known = ", ".join(_vocabularies(kb)) or "none"
            raise PelError(
                f"{kb.path}: no entity has a code of {name!r}",
                f"choose of its vocabularies: {known}",
            )


def _vocabularies(kb: KnowledgeBase) -> list[str]:
    """The vocabularies of the first entities, sorted."""
    ids = (
        id
        for entity in islice(kb, _LOOKED_AT)
        for id in (entity.concept_id, *entity.alt_ids, *entity.xrefs)
    )
    return sorted({id.partition(":")[0] for id in ids if ":" in id})
