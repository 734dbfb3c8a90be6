"""Semantic types, and their place in a tree such as UMLS's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...errors import PelError


class SemanticType(NamedTuple):
    """A type of entities, with its code, such as a TUI, and its place in a tree, where it has them.

    The tree numbers of its descendants, for example "B2.2.1.2.1", begin with its own.
    """

    name: str
    code: str | None = None
    tree_number: str | None = None


def _steps(tree_number: str | None) -> list[str]:
    """From the top: "B", "2", "2", "1" for "B2.2.1", because "B" is above "B2" in the UMLS."""
    return re.findall(r"[A-Z]+|[^A-Z.]+", tree_number or "")


def _is_below(tree_number: str | None, ancestor: str | None) -> bool:
    """Whether a tree number stands below another, step by step. None stands nowhere."""
    steps, above = _steps(tree_number), _steps(ancestor)
    return 0 < len(above) < len(steps) and steps[: len(above)] == above


def known_types(types: Iterable[SemanticType]) -> list[SemanticType]:
    """The types without repeats. A type with only a name goes if another has a code or number too."""
    distinct = list(dict.fromkeys(types))
    described = {type.name for type in distinct if type != SemanticType(type.name)}
    return [t for t in distinct if t.name not in described or t != SemanticType(t.name)]


def types_meant(text: str, types: Iterable[SemanticType]) -> list[SemanticType]:
    """The types that have this name, code or tree number, and all types below them."""
    types = list(types)
    chosen = [type for type in types if text and text in type]
    numbers = {text, *(type.tree_number for type in chosen)}
    return [t for t in types if t in chosen or any(_is_below(t.tree_number, n) for n in numbers)]


def with_descendants(wanted: Iterable[str], types: Sequence[SemanticType]) -> set[str]:
    """The names of the wanted types, given by name or code, and of all types below them.

    PelError if one of them is not among the types of the KB.
    """
    meant = {text: types_meant(text, types) for text in wanted}
    for text, found in meant.items():
        if not found:
            remedy = "choose one that python -m spacy pel kb info lists"
            raise PelError(f"no semantic type {text!r} in this KB", remedy)
    return {type.name for found in meant.values() for type in found}
