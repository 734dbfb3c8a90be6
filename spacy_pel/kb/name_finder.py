"""Finds the names of a knowledge base in text, by a table of hashes in a file of its folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..system.whole_files import whole_file
from .names_by_words import NamesByWords
from .pieces import Pieces, hash_of, is_short_acronym, owned_names, record_of
from .records.entity import Entity
from .records.names import american
from .vectors.matrix import mapped

_ANY_LENGTH = 255  # is stored as the length of an acronym, which may be short
_BASE = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_PER_NAME = 8  # of the filter of beginnings; rounded up to a power of two
_ENTITIES_AT_ONCE = 10_000
_REMEMBERED = 200_000  # pieces whose hashes are kept


class FoundNames(NamedTuple):
    """Names that were found, from the left to the right: int64 [n]. They do not overlap."""

    first: np.ndarray  # the first piece of each
    last: np.ndarray  # its last piece
    names: np.ndarray  # its number in the finder


class NameFinder:
    """Finds the longest names of a KB in text, and says whose they are.

    A name begins and ends at the edge of a word. Of names that overlap, that one is found which begins
    first; of those that begin at the same place, the longest. White space is ignored, and so are case
    and British spelling, except in acronyms: one word of at most five letters, all of them capitals. A
    name without a letter is never found.

    A name is a hash of 64 bits, and a filter knows its beginnings: 33 bytes a name in all. They are one
    file in the KB's folder, which is mapped. Different names have the same hash with a chance of 2^-64.

    Args:
        table: What ``name_table`` makes, for example mapped from a file.
        words: What ``word_table`` makes: names are also found by their words (``NamesByWords``), and
            have the last numbers. None: names are found as they stand.
        min_length: Shorter names, in characters, are not found. Acronyms may be shorter.
        stop_words: Names that are not found, ignoring case. Acronyms are found even so.
        entities: The numbers of the entities whose names are found; None: of all.

    Attributes:
        owners: int32 [m], the numbers of the entities of all names, name by name, ascending.
        preferred: bool [m], whether the name is the canonical one of this owner.
        bounds: uint32 [n + 1], where the owners of each name begin.
        wanted: bool [n], which names are found, by the arguments.
    """

    def __init__(
        self,
        table: np.ndarray,
        words: np.ndarray | None = None,
        *,
        min_length: int = 3,
        stop_words: Collection[str] = (),
        entities: np.ndarray | None = None,
    ) -> None:
        columns = {name: np.asarray(table[name][0]) for name in table.dtype.names}
        self.owners, self.preferred = columns["owners"], columns["preferred"]
        self.bounds = columns["bounds"]
        self._hashes, self._beginnings = columns["hashes"], columns["beginnings"]
        self._last_slot = np.uint64(len(self._beginnings) - 1)  # all its bits are set
        self.wanted = columns["lengths"] >= min_length
        if stop_words:
            places, are_names = self._places(_hashed(list(stop_words), _folded)[0])
            self.wanted[places[are_names]] = False
        self._by_words = None if words is None else NamesByWords(words)
        if self._by_words:
            more = self._by_words
            self.wanted = np.concatenate([self.wanted, more.lengths >= min_length])
            self.bounds = np.concatenate([self.bounds, more.bounds[1:] + self.bounds[-1]])
            self.owners = np.concatenate([self.owners, more.owners])
            self.preferred = np.pad(self.preferred, (0, len(more.owners)))
        if entities is not None and len(self.owners):
            owned = np.isin(self.owners, entities)
            self.wanted &= np.logical_or.reduceat(owned, self.bounds[:-1])

    def found(self, text: str) -> list[tuple[int, int, np.ndarray]]:
        """The start and the end of each name in a text, and the numbers of the entities that own it."""
        pieces = Pieces([text])
        first, last, names = self.found_in(pieces)
        bounds = pieces.starts[first].tolist(), pieces.ends[last].tolist()
        return list(zip(*bounds, map(self.owners_of, names.tolist())))

    def owners_by_words(self, name: str) -> np.ndarray:
        """The numbers of the entities that have these words as a name in any order: int32."""
        place = self._by_words and self._by_words.place_of(name)
        return self.owners[:0] if place is None else self.owners_of(len(self._hashes) + place)

    def owners_of(self, name: int) -> np.ndarray:
        """The numbers of the entities that have a name: int32."""
        return self.owners[self.bounds[name] : self.bounds[name + 1]]

    def found_in(self, pieces: Pieces) -> FoundNames:
        """The names in the pieces of texts."""
        names, lengths = self._longest(pieces)
        first, end = [], 0
        for start in np.flatnonzero(lengths).tolist():
            if start >= end:
                first.append(start)
                end = start + lengths[start]
        first = np.array(first, dtype=np.int64)
        return FoundNames(first, first + lengths[first] - 1, names[first])

    def _longest(self, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """The longest name that begins at each piece, and its pieces; 0 for none: int64 [n]."""
        n = len(pieces.words)
        hashes = np.concatenate([pieces.hashes(_folded), pieces.hashes(_exact)])
        alive, runs = np.arange(2 * n), np.zeros(2 * n, np.uint64)
        names, lengths = np.zeros((2, 2 * n), np.int64)  # of the longest that begins at each piece
        length = 0
        while True:
            runs = runs * _BASE + hashes.take(alive + length, mode="clip")
            length += 1
            begins = self._beginnings[runs & self._last_slot]
            alive, runs = alive[begins], runs[begins]
            if not len(alive):
                break
            places, are_names = self._places(runs)
            are_names &= self.wanted[places]
            at = alive[are_names]
            names[at], lengths[at] = places[are_names], length
        is_acronym = lengths[n:] >= lengths[:n]
        names, lengths = (np.where(is_acronym, x[n:], x[:n]) for x in (names, lengths))
        if self._by_words:
            self._by_words.add_longer(pieces, names, lengths, self.wanted, len(self._hashes))
        return names, lengths

    def _places(self, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The names that have these hashes, and whether there are such names."""
        if not len(self._hashes):
            return np.zeros(len(runs), np.int64), np.zeros(len(runs), bool)
        places = self._hashes.searchsorted(runs)
        np.minimum(places, len(self._hashes) - 1, out=places)
        return places, self._hashes[places] == runs


@lru_cache(_REMEMBERED)
def _folded(piece: str) -> int:
    return hash_of(american(piece.casefold()), b"folded")


@lru_cache(_REMEMBERED)
def _exact(piece: str) -> int:
    return hash_of(piece, b"exact")


def kept_table(path: Path, make: Callable[[], np.ndarray]) -> np.ndarray:
    """A table that is mapped from its file, which is made if it can be."""
    with suppress(PelError):
        return mapped(path)
    table = make()
    with suppress(OSError), whole_file(path, "xb") as file:
        np.save(file, table)
    return table


def name_table(entities: Iterable[Entity], numbers: np.ndarray) -> np.ndarray:
    """The table of the names of entities, which have these numbers: an array of one record."""
    columns, beginnings = [np.empty((4, 0), np.int64)], [np.empty(0, np.uint64)]
    stream = zip(entities, numbers.tolist())
    while block := list(islice(stream, _ENTITIES_AT_ONCE)):
        for kind in (_folded, _exact):
            rows = [
                (name, number, name == entity.canonical_name)
                for entity, number in block
                for name in entity.names
                if is_short_acronym(name) is (kind is _exact) and any(map(str.isalpha, name))
            ]
            if rows:
                names, *facts = zip(*rows)
                runs, of_block = _hashed(names, kind)
                lengths = np.minimum(list(map(len, names)), _ANY_LENGTH)
                if kind is _exact:
                    lengths[:] = _ANY_LENGTH
                columns.append(np.array([runs.view(np.int64), *facts, lengths]))
                beginnings.append(of_block)
    hashes, owners, preferred, lengths = np.concatenate(columns, axis=1)
    hashes = hashes.view(np.uint64)
    order = np.lexsort((owners, hashes))
    hashes, owners, preferred, lengths = (x[order] for x in (hashes, owners, preferred, lengths))
    names, owned, bounds = owned_names(hashes, owners)
    filter = np.zeros(1 << (len(names) * _SLOTS_PER_NAME).bit_length(), bool)
    for of_block in beginnings:
        filter[of_block & np.uint64(len(filter) - 1)] = True
    filled = {
        "hashes": hashes[names],
        "bounds": bounds,
        "owners": owners[owned].astype(np.int32),
        "preferred": np.maximum.reduceat(preferred, owned).astype(bool),
        "lengths": np.maximum.reduceat(lengths, names).astype(np.uint8),
        "beginnings": filter,
    }
    return record_of(filled)


def _hashed(names: Sequence[str], kind: Callable[[str], int]) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each name, uint64 [n], and the distinct hashes of all their beginnings."""
    pieces = Pieces(names)
    hashes, counts = pieces.hashes(kind), np.diff(pieces.first) - 1
    runs = np.zeros(len(names), np.uint64)
    beginnings = [runs[:0]]
    for length in range(counts.max(initial=0)):
        longer = np.flatnonzero(counts > length)
        runs[longer] = runs[longer] * _BASE + hashes[pieces.first[longer] + length]
        beginnings.append(runs[longer])
    return runs, np.unique(np.concatenate(beginnings))
