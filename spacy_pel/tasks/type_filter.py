"""Chooses entities by their types, whatever source they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..errors import PelError
from ..kb import Entity
from ..kb.records.semantic_types import SemanticType, is_below

UNTYPED = ""
_SHOWN = 20  # types in an error


def of_types(
    entities: Iterable[Entity],
    defined: Sequence[SemanticType],
    kept: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> Iterator[Entity]:
    """The entities of some types, without those of others.

    A type is a name, code or tree number of those that the sources define, and includes the types
    below it; or the name of any type that an entity has; or "" for entities without a type.

    Args:
        entities: The entities.
        defined: The semantic types that their sources define.
        kept: An entity is kept if one of its types is one of these; if there are none, all are.
        left_out: An entity is left out if one of its types is one of these.

    Raises:
        PelError: At the end, if no entity has one of these types.
    """
    wanted = {text: _names(text, defined) for text in (*kept, *left_out)}
    names = set().union(*(wanted[text] for text in kept))
    others = set().union(*(wanted[text] for text in left_out))
    seen: set[str] = set()
    for entity in entities:
        own = set(entity.types or (UNTYPED,))
        seen |= own
        if (not kept or own & names) and not own & others:
            yield entity
    for text, meant in wanted.items():
        if not meant & seen:
            known = ", ".join(sorted(filter(None, seen))[:_SHOWN]) or "none"
            raise PelError(f"no entity has the type {text!r}", f"choose of: {known}")


def _names(text: str, defined: Sequence[SemanticType]) -> set[str]:
    """The names of the types that a text means."""
    chosen = [t for t in defined if text and text in (t.name, t.code, t.tree_number)]
    numbers = [type.tree_number for type in chosen]
    below = [t.name for t in defined if any(is_below(t.tree_number, n) for n in numbers)]
    return {text, *(type.name for type in chosen), *below}
