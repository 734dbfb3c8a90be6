"""Recipes, which select the rows of a UMLS release."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import PelError
from ..records.semantic_types import SemanticType, types_meant

# MedMentions ST21pv: 21 semantic types, each with its descendants, by tree number.
_ST21PV_TYPES = tuple(
    "A1.1.4 A1.1.2 A1.2 A2.1.4.1 A1.4.2 A2.2 B2.3 B2.2.1 B1.3.1 B1.3.2 A1.3.1 A2.1.5 A2.6.1 A2.7 "
    "A2.9.1 A2.9.2 A1.4.1 A1.4.3 A2.4 A2.3.1 A1.1.3".split()
)
_ST21PV_VOCABULARIES = tuple(
    "CPT FMA GO HGNC HPO ICD10 ICD10CM ICD9CM MDR MSH MTH NCBI NCI NDDF NDFRT OMIM RXNORM "
    "SNOMEDCT_US".split()
)
# As in scispaCy: their definitions are written for people, others often for machines.
DEFINITION_SOURCES = ("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA")


class UmlsRecipe(NamedTuple):
    """Select the rows of a UMLS release. The defaults, preset "full", select what scispaCy exports.

    The preset "st21pv" selects the subset of MedMentions ST21pv, in English. Like arboEL's data, it chooses
    names by MRRANK, because the flagged name may be from another vocabulary. None keeps all rows.
    """

    languages: tuple[str, ...] | None = ("ENG",)  # LAT of names, and of definitions by MRSAB
    vocabularies: tuple[str, ...] | None = None  # SAB of names, definitions and parents
    types: tuple[str, ...] | None = None  # TUIs, names or tree numbers, with the types below them
    # "flags": the first row with ISPREF=Y, TS=P and STT=PF. "rank": the row whose SAB and TTY rank
    # highest in MRRANK, if there is one.
    preferred_name: str = "flags"
    definition_sources: tuple[str, ...] = DEFINITION_SOURCES  # SABs of preferred definitions

    @classmethod
    def preset(cls, name: str) -> UmlsRecipe:
        """Return the recipe with this name; PelError if there is none."""
        if name not in PRESETS:
            raise PelError(f"unknown preset {name!r}", f"choose one of {', '.join(PRESETS)}")
        return PRESETS[name]

    def type_codes(self, types: Sequence[SemanticType]) -> list[str]:
        """Return the TUIs of ``self.types`` among all types of a release, with the types below them.

        PelError if the release lacks a name or TUI. It may lack a tree number that has types below it.
        """
        codes: set[str] = set()
        for wanted in self.types or ():
            meant = types_meant(wanted, types)
            if not meant and not re.fullmatch(r"[AB](\d+(\.\d+)*)?", wanted):
                problem = f"no semantic type {wanted!r} in MRSTY.RRF"
                raise PelError(problem, "give a TUI, a name or a tree number")
            codes.update(type.code for type in meant if type.code)
        return sorted(codes)


PRESETS = {
    "full": UmlsRecipe(),
    "st21pv": UmlsRecipe(("ENG",), _ST21PV_VOCABULARIES, _ST21PV_TYPES, "rank"),
}
