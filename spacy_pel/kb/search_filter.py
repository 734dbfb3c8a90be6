"""Constraints of a search: which entities it may return."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import PelError
from .records.entity import SemanticType, is_below

if TYPE_CHECKING:
    from .knowledge_base import KnowledgeBase
    from .segment import Segment

_KEPT = 8  # each takes a byte an entity


class SearchFilter(NamedTuple):
    """What a search is confined to: each field that is given must hold.

    types: names or codes of semantic types; an entity of a type below one of them counts. "" stands
        for entities without a type.
    sources: names of sources, as in ``Entity.sources``.
    ids: concept ids, alternative or retired ids; those that the KB does not have are passed over.
    """

    types: Collection[str] = ()
    sources: Collection[str] = ()
    ids: Collection[str] = ()


class FilterMasks:
    """The entities that constraints leave of a KB: computed once, the last few kept."""

    def __init__(self) -> None:
        self._kept: dict[SearchFilter, list[np.ndarray]] = {}

    def masks(self, kb: KnowledgeBase, only: SearchFilter) -> list[np.ndarray]:
        """For each segment of the KB booleans [count], which of its entities may be found.

        Raises PelError for a type or source that the KB does not have.
        """
        key = _distinct(only)
        if key not in self._kept:
            if len(self._kept) == _KEPT:
                del self._kept[next(iter(self._kept))]
            numbers = filtered_numbers(kb, key)
            self._kept[key] = [_mask(segment, numbers) for segment in kb.segments]
        return self._kept[key]


def filtered_numbers(kb: KnowledgeBase, only: SearchFilter) -> np.ndarray:
    """The numbers of the entities that meet all constraints: int64, ascending.

    Raises PelError for a type or source that the KB does not have.
    """
    numbers = kb.numbers()
    if only.types:
        numbers = np.intersect1d(numbers, kb.of_types(*only.types), assume_unique=True)
    if only.sources:
        numbers = np.intersect1d(numbers, kb.of_sources(*only.sources), assume_unique=True)
    if only.ids:
        known = [number for number in map(kb.number, only.ids) if number is not None]
        numbers = np.intersect1d(numbers, np.array(known, dtype=np.int64))
    return numbers


def _mask(segment: Segment, numbers: np.ndarray) -> np.ndarray:
    """Booleans [count], true at those of the KB's numbers that are in the segment."""
    mask = np.zeros(segment.count, dtype=bool)
    local = numbers - segment.first
    mask[local[(local >= 0) & (local < segment.count)]] = True
    mask.flags.writeable = False  # lets an index remember what follows from it
    return mask


def _distinct(only: SearchFilter) -> SearchFilter:
    """The same constraints, hashable and in one order; PelError for a text in place of a list."""
    for field, values in only._asdict().items():
        if isinstance(values, str):
            raise PelError(f"{field} is the text {values!r}", "give a list of them")
    return SearchFilter(*(tuple(sorted(set(values))) for values in only))


def known_types(types: Iterable[SemanticType]) -> list[SemanticType]:
    """The types without repeats; a name alone goes where there is more to say of the type."""
    distinct = list(dict.fromkeys(types))
    described = {type.name for type in distinct if type != SemanticType(type.name)}
    return [t for t in distinct if t.name not in described or t != SemanticType(t.name)]


def with_descendants(wanted: Iterable[str], types: Sequence[SemanticType]) -> set[str]:
    """The names of the wanted types, given by name or code, and of all below them.

    Raises PelError for one that is not among the types.
    """
    names: set[str] = set()
    for text in wanted:
        chosen = [type for type in types if text in (type.name, type.code)]
        if not chosen:
            raise PelError(
                f"no semantic type {text!r} in this KB", "see python -m spacy pel kb info"
            )
        numbers = [type.tree_number for type in chosen]
        names.update(type.name for type in chosen)
        names.update(t.name for t in types if any(is_below(t.tree_number, n) for n in numbers))
    return names
