"""Filters of a search: which entities it may return."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..errors import PelError
from .segment import Segment

_KEPT = 8  # filters whose masks are kept; a mask takes one byte an entity


class SearchFilter(NamedTuple):
    """The entities that a search may return. Every field that is given must hold.

    Attributes:
        types: Names or codes of semantic types. An entity matches if it has one of them or a type
            below one of them in the tree. "" stands for entities without a type.
        sources: Names of sources, as in ``Entity.sources``.
        ids: Concept ids, alternative ids or retired ids. Ids that the KB does not have are ignored.
    """

    types: Collection[str] = ()
    sources: Collection[str] = ()
    ids: Collection[str] = ()


class FilterableKB(Protocol):
    """What a filter asks of a KB; see the methods of ``KnowledgeBase``."""

    @property
    def segments(self) -> Sequence[Segment]: ...

    def numbers(self) -> np.ndarray: ...

    def number(self, id: str) -> int | None: ...

    def of_types(self, *names_or_codes: str) -> np.ndarray: ...

    def of_sources(self, *names: str) -> np.ndarray: ...


class FilterMasks:
    """The entities that filters allow, computed once for each of the last few filters."""

    def __init__(self) -> None:
        self._kept: dict[SearchFilter, list[np.ndarray]] = {}

    def masks(self, kb: FilterableKB, only: SearchFilter) -> list[np.ndarray]:
        """One mask for each segment of the KB, which says which of its entities are allowed.

        Returns:
            Booleans [number of entities of the segment], read-only.

        Raises:
            PelError: The KB does not have a type or a source of the filter.
        """
        key = _normal_form(only)
        if key not in self._kept:
            if len(self._kept) == _KEPT:
                del self._kept[next(iter(self._kept))]
            numbers = filtered_numbers(kb, key)
            self._kept[key] = [_mask(segment, numbers) for segment in kb.segments]
        return self._kept[key]


def filtered_numbers(kb: FilterableKB, only: SearchFilter) -> np.ndarray:
    """The numbers of the entities that a filter allows.

    Returns:
        int64, ascending.

    Raises:
        PelError: The KB does not have a type or a source of the filter.
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
    """Booleans [count]: whether an entity of the segment is among these numbers of the KB."""
    mask = np.zeros(segment.count, dtype=bool)
    local = numbers - segment.first
    mask[local[(local >= 0) & (local < segment.count)]] = True
    mask.flags.writeable = False  # an index remembers what it derives from a read-only mask
    return mask


def _normal_form(only: SearchFilter) -> SearchFilter:
    """The same filter, hashable and in one order; PelError for a text in place of a list."""
    for field, values in only._asdict().items():
        if isinstance(values, str):
            raise PelError(f"{field} is the text {values!r}", f"give a list of {field}")
    return SearchFilter(*(tuple(sorted(set(values))) for values in only))
