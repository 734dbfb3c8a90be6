"""Filters of a search: which entities it may return."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

import numpy as np

from ..errors import PelError


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

    def numbers(self) -> np.ndarray: ...

    def number(self, id: str) -> int | None: ...

    def of_types(self, *names_or_codes: str) -> np.ndarray: ...

    def of_sources(self, *names: str) -> np.ndarray: ...


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


def normal_form(only: SearchFilter) -> SearchFilter:
    """The same filter, hashable and in one order; PelError for a text in place of a list."""
    for field, values in only._asdict().items():
        if isinstance(values, str):
            raise PelError(f"{field} is the text {values!r}", f"give a list of {field}")
    return SearchFilter(*(tuple(sorted(set(values))) for values in only))
