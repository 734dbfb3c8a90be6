"""The record of one entity of a knowledge base."""

from __future__ import annotations

from typing import NamedTuple


class Entity(NamedTuple):
    """An entity of a knowledge base: scispaCy's JSONL schema, and what other sources know.

    concept_id: the identifier, for example a UMLS CUI or a MeSH descriptor.
    canonical_name: the preferred name.
    aliases: other names; the canonical name may be repeated among them.
    types: names of semantic types, most specific first.
    definition: free text, or None.
    alt_ids: other identifiers of the same entity; each resolves to this record.
    parents: concept ids of broader entities; they need not be in the KB.
    retired_ids: identifiers it had in earlier releases; each resolves to this record.
    xrefs: identifiers in other vocabularies ("MSH:D009103"): may be shared, and do not resolve.
    sources: where the record comes from, for example the vocabularies or files that were joined.
    """

    concept_id: str
    canonical_name: str
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    definition: str | None = None
    alt_ids: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    retired_ids: tuple[str, ...] = ()
    xrefs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the canonical one first, without repeats."""
        return tuple(dict.fromkeys((self.canonical_name, *self.aliases)))
