"""The tree of MeSH. The place of a descriptor in it gives its types and its parents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..records.semantic_types import SemanticType

BRANCHES = {
    "A": "Anatomy",
    "B": "Organisms",
    "C": "Diseases",
    "D": "Chemicals and Drugs",
    "E": "Analytical, Diagnostic and Therapeutic Techniques, and Equipment",
    "F": "Psychiatry and Psychology",
    "G": "Phenomena and Processes",
    "H": "Disciplines and Occupations",
    "I": "Anthropology, Education, Sociology, and Social Phenomena",
    "J": "Technology, Industry, and Agriculture",
    "K": "Humanities",
    "L": "Information Science",
    "M": "Named Groups",
    "N": "Health Care",
    "V": "Publication Characteristics",
    "Z": "Geographicals",
}
BRANCH_TYPES = tuple(SemanticType(name, code, code) for code, name in BRANCHES.items())
VOCABULARY = "MSH"  # as UMLS names it


class MeshTree:
    """Gives the types and parents of descriptors.

    Args:
        places: Pairs of a tree number and the id of the descriptor there.
    """

    def __init__(self, places: Iterable[tuple[str, str]]) -> None:
        self._descriptors = dict(places)
        self._branches: dict[str, set[str]] = {}
        for number, descriptor in self._descriptors.items():
            self._branches.setdefault(descriptor, set()).add(number[:1])

    def types(self, descriptors: Iterable[str]) -> tuple[str, ...]:
        """The names of the branches that hold the descriptors, sorted by the branches' letters."""
        letters = {branch for id in descriptors for branch in self._branches.get(id, ())}
        return tuple(BRANCHES[letter] for letter in sorted(letters & BRANCHES.keys()))

    def parents(self, numbers: Iterable[str]) -> tuple[str, ...]:
        """The descriptors one step above the tree numbers, for example "C01" above "C01.2"."""
        above = (self._descriptors.get(number.rpartition(".")[0]) for number in numbers)
        return tuple(dict.fromkeys(filter(None, above)))


def mesh_year(path: Path) -> str | None:
    """The year in the name of a file or folder of MeSH ("desc2024.xml"), or None."""
    year = re.search(r"(?:19|20)\d\d", path.name)
    return year[0] if year else None
