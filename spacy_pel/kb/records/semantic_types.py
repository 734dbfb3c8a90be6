"""The types that entities have, and the tree that some vocabularies place them in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...errors import PelError


class SemanticType(NamedTuple):
    """A type of entities.

    Attributes:
        name: The name, as in ``Entity.types``.
        code: The identifier, for example a TUI, or None.
        tree_number: The place in a hierarchy, for example "B2.2.1.2.1", or None. The numbers of its
            descendants begin with it.
    """

    name: str
    code: str | None = None
    tree_number: str | None = None


def tree_steps(tree_number: str | None) -> tuple[str, ...]:
    """The steps of a tree number from the top: "B", "2", "2", "1" for "B2.2.1"; () for None.

    The root of a UMLS tree is a single letter: "A" is above "A1" and "A1.1".
    """
    first, *rest = (tree_number or "").split(".")
    number = first.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    letters = first[: len(first) - len(number)]
    return tuple(step for step in (letters, number, *rest) if step)


def is_below(tree_number: str | None, ancestor: str | None) -> bool:
    """Whether a tree number stands below another, step by step. None stands nowhere."""
    steps, above = tree_steps(tree_number), tree_steps(ancestor)
    return 0 < len(above) < len(steps) and steps[: len(above)] == above


def known_types(types: Iterable[SemanticType]) -> list[SemanticType]:
    """The types without repeats. A type with only a name goes if another has a code or number too."""
    distinct = list(dict.fromkeys(types))
    described = {type.name for type in distinct if type != SemanticType(type.name)}
    return [t for t in distinct if t.name not in described or t != SemanticType(t.name)]


def with_descendants(wanted: Iterable[str], types: Sequence[SemanticType]) -> set[str]:
    """The names of the wanted types and of all types below them.

    Args:
        wanted: Names or codes.
        types: All types of the KB.

    Raises:
        PelError: A wanted type is not among the types.
    """
    names: set[str] = set()
    for text in wanted:
        chosen = [type for type in types if text in (type.name, type.code)]
        if not chosen:
            raise PelError(
                f"no semantic type {text!r} in this KB",
                "choose one that python -m spacy pel kb info lists",
            )
        numbers = [type.tree_number for type in chosen]
        names.update(type.name for type in chosen)
        names.update(t.name for t in types if any(is_below(t.tree_number, n) for n in numbers))
    return names
