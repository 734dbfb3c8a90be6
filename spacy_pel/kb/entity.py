"""The record of one entity of a knowledge base."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Entity(NamedTuple):
    """An entity of a knowledge base, in scispaCy's JSONL schema plus ``alt_ids``.

    concept_id: the identifier, for example a UMLS CUI or a MeSH descriptor.
    canonical_name: the preferred name.
    aliases: other names; the canonical name may be repeated among them.
    types: names or codes of semantic types, most specific first.
    definition: free text, or None.
    alt_ids: other identifiers of the same entity; each resolves to this record.
    """

    concept_id: str
    canonical_name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    definition: Optional[str] = None
    alt_ids: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the canonical one first, without repeats."""
        return tuple(dict.fromkeys((self.canonical_name, *self.aliases)))
