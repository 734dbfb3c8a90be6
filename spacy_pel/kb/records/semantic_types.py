"""Semantic types and their tree, such as that of UMLS."""

import re
from collections.abc import Iterable
from typing import NamedTuple


class SemanticType(NamedTuple):
    """A semantic type, its code (such as a TUI) and its tree number ("B2.2.1").

    The tree number of a type begins with that of each of its ancestors.
    """

    name: str
    code: str | None = None
    tree_number: str | None = None


def _steps(tree_number: str | None) -> list[str]:
    """Return the steps from the root: "B", "2", "2", "1" for "B2.2.1" ("B" is above "B2" in UMLS)."""
    return re.findall(r"[A-Z]+|[^A-Z.]+", tree_number or "")


def _is_below(tree_number: str | None, ancestor: str | None) -> bool:
    steps, above = _steps(tree_number), _steps(ancestor)
    return 0 < len(above) < len(steps) and steps[: len(above)] == above


def types_meant(text: str, types: Iterable[SemanticType]) -> list[SemanticType]:
    """Return the types with this name, code or tree number, and all types below them."""
    types = list(types)
    chosen = [type for type in types if text and text in type]
    numbers = {text, *(type.tree_number for type in chosen)}
    return [t for t in types if t in chosen or any(_is_below(t.tree_number, n) for n in numbers)]
