"""The record of one entity of a knowledge base, and of a type that entities have."""

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


class SemanticType(NamedTuple):
    """A type of entities, as ``Entity.types`` names it.

    code: its identifier, for example a TUI, or None.
    tree_number: its place in a hierarchy, for example "B2.2.1.2.1"; its descendants' numbers begin
    with it. None where there is no hierarchy.
    """

    name: str
    code: str | None = None
    tree_number: str | None = None


def tree_steps(tree_number: str | None) -> tuple[str, ...]:
    """A tree number as the way from the top: "B2.2.1" as "B", "2", "2", "1"; () for None.

    The root of a UMLS tree is a letter alone: "A" is above "A1" and "A1.1".
    """
    first, *rest = (tree_number or "").split(".")
    number = first.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    letters = first[: len(first) - len(number)]
    return tuple(step for step in (letters, number, *rest) if step)


def is_below(tree_number: str | None, ancestor: str | None) -> bool:
    """Whether a tree number stands below another, by whole steps; None is nowhere."""
    steps, above = tree_steps(tree_number), tree_steps(ancestor)
    return 0 < len(above) < len(steps) and steps[: len(above)] == above
