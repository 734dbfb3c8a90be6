"""The record of one entity of a knowledge base."""

from __future__ import annotations

from typing import NamedTuple


class Entity(NamedTuple):
    """An entity of a knowledge base: the fields of scispaCy's JSONL schema, and some more.

    Attributes:
        concept_id: The identifier, for example a UMLS CUI or a MeSH descriptor.
        canonical_name: The preferred name.
        aliases: Other names. They may include the canonical name.
        types: Names of semantic types, most specific first.
        definition: Free text, or None.
        alt_ids: Other identifiers of the same entity. A look-up by one of them finds this record.
        parents: Concept ids of broader entities, which need not be in the KB.
        retired_ids: Identifiers from earlier releases. A look-up by one of them finds this record.
        xrefs: Identifiers in other vocabularies ("MSH:D009103"). Several entities may share one,
            and look-ups do not use them.
        sources: The vocabularies or files that the record comes from.
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

    def codes(self, vocabulary: str) -> tuple[str, ...]:
        """Its codes in a vocabulary, without the name of the vocabulary: ("G35",) for "ICD10CM".

        They are found among all its identifiers but the retired ones. Case is ignored.
        """
        prefix = f"{vocabulary}:".lower()
        ids = (self.concept_id, *self.alt_ids, *self.xrefs)
        found = (id[len(prefix) :] for id in ids if id.lower().startswith(prefix))
        return tuple(dict.fromkeys(found))
