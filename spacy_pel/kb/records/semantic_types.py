"""Semantic types, and their place in a tree such as UMLS's."""

import re
from collections.abc import Iterable
from typing import NamedTuple


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


def types_meant(text: str, types: Iterable[SemanticType]) -> list[SemanticType]:
    """The types that have this name, code or tree number, and all types below them."""
    types = list(types)
    chosen = [type for type in types if text and text in type]
    numbers = {text, *(type.tree_number for type in chosen)}
    return [t for t in types if t in chosen or any(_is_below(t.tree_number, n) for n in numbers)]
