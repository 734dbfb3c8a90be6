"""Recipes: which rows of a UMLS release become entities, and how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import PelError
from ..records.semantic_types import SemanticType, types_meant

# MedMentions ST21pv: 21 semantic types, each with its descendants, by tree number.
ST21PV_TYPES = (
    "A1.1.4 A1.1.2 A1.2 A2.1.4.1 A1.4.2 A2.2 B2.3 B2.2.1 B1.3.1 B1.3.2 A1.3.1 A2.1.5 A2.6.1 A2.7 "
    "A2.9.1 A2.9.2 A1.4.1 A1.4.3 A2.4 A2.3.1 A1.1.3"
).split()
ST21PV_VOCABULARIES = (
    "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM "
    "SNOMEDCT_US"
).split()
# scispaCy's choice: their definitions are written for people; others are often for machines.
DEFINITION_SOURCES = ("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA")


class UmlsRecipe(NamedTuple):
    """How a UMLS release is read. The defaults give what scispaCy exports (the preset "full").

    The preset "st21pv" gives the subset of MedMentions ST21pv: 21 types with their descendants, 18
    vocabularies, English, no suppressed rows, as in the "Active" subset of 2017AA. It chooses names
    by MRRANK, as arboEL's data do: the name that the flags mark may be of no such vocabulary.

    Attributes:
        languages: Names are kept if their language (LAT in MRCONSO) is one of these; None keeps
            all. If MRSAB gives the language of a vocabulary, it holds for the definitions too.
        vocabularies: Names, definitions and parents are kept if their SAB is one of these; None
            keeps all.
        types: An entity is kept if one of its types is one of these or a descendant of one. Each is
            a TUI ("T005"), a name ("Virus") or a tree number ("A1.1.4"); None keeps all.
        suppressed: Whether rows with a SUPPRESS other than N are kept.
        preferred_name: With "flags" the name is the first row with ISPREF=Y, TS=P and STT=PF. With
            "rank" it is the row whose SAB and TTY rank highest in MRRANK; without MRRANK it is that
            of "flags".
        definition_sources: Definitions of these SABs are preferred. The first such row is taken.
    """

    languages: tuple[str, ...] | None = ("ENG",)
    vocabularies: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    suppressed: bool = False
    preferred_name: str = "flags"
    definition_sources: tuple[str, ...] = DEFINITION_SOURCES

    @classmethod
    def preset(cls, name: str) -> UmlsRecipe:
        """The recipe with this name, "full" or "st21pv"; PelError for another name."""
        if name not in PRESETS:
            raise PelError(f"unknown preset {name!r}", f"choose one of {', '.join(PRESETS)}")
        return PRESETS[name]

    def type_codes(self, types: Sequence[SemanticType]) -> list[str]:
        """The TUIs that ``self.types`` stands for, with those of descendants.

        types: All semantic types of the release. PelError if it lacks a name or TUI; a tree number
            that it lacks stands for the types below it, if any.
        """
        codes: set[str] = set()
        for wanted in self.types:
            meant = types_meant(wanted, types)
            if not meant and not re.fullmatch(r"[AB](\d+(\.\d+)*)?", wanted):
                problem = f"no semantic type {wanted!r} in MRSTY.RRF"
                raise PelError(problem, "give a TUI, a name or a tree number")
            codes.update(type.code for type in meant)
        return sorted(codes)


_ST21PV = UmlsRecipe(("ENG",), tuple(ST21PV_VOCABULARIES), tuple(ST21PV_TYPES), False, "rank")
PRESETS = {"full": UmlsRecipe(), "st21pv": _ST21PV}
