"""Finds the names of a knowledge base in text, by a table of hashes in a file of its folder."""

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

import numpy as np

from .names_by_words import phrases, same_words, stems_in, sums_of, with_meaning
from .pieces import Pieces, hash_of, is_short_acronym
from .records.entity import Entity
from .records.names import american
from .records.plain_text import plain

_ANY_LENGTH = 255  # is stored as the length of an acronym, which may be short
_BASE = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_PER_NAME = 8  # of the filter of beginnings; rounded up to a power of two
_NAMES_AT_ONCE, _WORDS_AT_ONCE = 20_000, 1_000_000
_REMEMBERED = 50_000  # pieces whose hashes are kept


class FoundNames(NamedTuple):
    """Names that were found, from the left to the right: int64 [n]."""

    first: np.ndarray  # the first piece of each
    last: np.ndarray  # its last piece
    names: np.ndarray  # its number in the finder


class NameFinder:
    """Finds the longest names of a KB in text, and says whose they are.

    Names and texts are compared as plain text. A name has a letter, and begins and ends at the edge of a word. Of names that overlap, that one is
    found which begins first; of those that begin at the same place, the longest. White space is ignored,
    and so are case and British spelling, except in acronyms (``is_short_acronym``).

    A name is a hash of 64 bits, and a filter knows its beginnings: 33 bytes a name in all. They are one
    file in the KB's folder, which is mapped. Different names have the same hash with a chance of 2^-64.

    Args:
        table: What ``name_table`` makes, for example mapped from a file.
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
        *,
        min_length: int = 3,
        stop_words: Collection[str] = (),
        entities: np.ndarray | None = None,
    ) -> None:
        columns = {name: np.asarray(table[name][0]) for name in table.dtype.names}
        self.owners, self.preferred = columns["owners"], columns["preferred"]
        self.bounds = columns["bounds"]
        self._hashes, self._beginnings = columns["hashes"], columns["beginnings"]
        # Words that others mean the same as; None if names are found as they stand alone.
        self._meant = (columns["words"], columns["meant"]) if "words" in columns else None
        self._last_slot = np.uint64(len(self._beginnings) - 1)  # all its bits are set
        self.wanted = columns["lengths"] >= min_length
        if stop_words:
            pieces = Pieces(list(stop_words))
            places, are_names = self._places(_hashed(pieces, pieces.hashes(_folded))[0])
            self.wanted[places[are_names]] = False
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
        """The numbers of the entities that have these words, two or more, as a name: int32."""
        stems = with_meaning(stems_in(Pieces([name])), *self._meant)
        (place,), (is_name,) = self._places(stems.sum(keepdims=True))
        return self.owners_of(place) if is_name and (stems != 0).sum() > 1 else self.owners[:0]

    def owners_of(self, name: int) -> np.ndarray:
        """The numbers of the entities that have a name: int32."""
        return self.owners[self.bounds[name] : self.bounds[name + 1]]

    def found_in(self, pieces: Pieces, nested: bool = False) -> FoundNames:
        """The names in the pieces of texts; with ``nested`` also those that begin inside another."""
        names, lengths = self._longest(pieces)
        first, end = [], 0
        for start in np.flatnonzero(lengths).tolist():
            if nested or start >= end:
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
        if self._meant and len(self._hashes):
            stems = with_meaning(stems_in(pieces), *self._meant)
            sums = np.concatenate([np.zeros(1, np.uint64), stems.cumsum()])
            for first, last in phrases(pieces, stems):
                places, are_names = self._places(sums[last + 1] - sums[first])
                are_names &= self.wanted[places] & (last - first >= lengths[first])
                at = first[are_names]
                names[at], lengths[at] = places[are_names], (last - first + 1)[are_names]
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


def name_table(
    entities: Iterable[Entity], numbers: np.ndarray, in_any_order: bool = False
) -> np.ndarray:
    """The table of the names of entities, which have these numbers: an array of one record.

    "hashes" are ascending, "bounds" say whose "owners" are, and "lengths" are in characters. If names are
    also found by their words in any order, the hash of a name is the sum of its words, and "words" have
    others that mean the same, "meant". That takes 20 microseconds and a third of a kilobyte of memory a name.
    """
    kinds = (np.uint64, np.int32, bool, np.uint8)  # of the columns: hashes, owners, and so on
    columns, beginnings = [tuple(np.empty(0, kind) for kind in kinds)], [np.empty(0, np.uint64)]
    stems, by_words = [np.empty(0, np.uint64)], [np.empty((3, 0), np.int32)]
    facts = (
        (name, number, name == entity.canonical_name, is_short_acronym(plain(name)))
        for entity, number in zip(entities, numbers.tolist())
        for name in entity.names
        if any(map(str.isalpha, name))
    )
    while block := list(islice(facts, _NAMES_AT_ONCE)):
        names, owners, preferred, are_exact = zip(*block)
        pieces, are_exact = Pieces(names), np.array(are_exact)
        hashes, is_exact = pieces.hashes(_folded), are_exact[pieces.texts]
        hashes[is_exact] = np.fromiter(map(_exact, compress(pieces.words, is_exact)), np.uint64)
        lengths = np.minimum(list(map(len, names)), _ANY_LENGTH)
        lengths[are_exact] = _ANY_LENGTH
        runs, of_block = _hashed(pieces, hashes)
        of_names = runs, owners, preferred, lengths
        columns.append(tuple(map(np.asarray, of_names, kinds)))
        beginnings.append(of_block)
        if in_any_order:
            own = np.where(is_exact, np.uint64(0), stems_in(pieces))
            size = np.bincount(pieces.texts[own != 0], minlength=len(names))
            several = size > 1
            stems.append(own[several[pieces.texts] & (own != 0)])
            by_words.append(np.array([owners, lengths, size], np.int32)[:, several])
    meanings = {}
    if in_any_order:
        stems = np.concatenate(stems)
        owners, lengths, sizes = np.concatenate(by_words, axis=1).astype(np.int64)
        words, meant = same_words(stems, sizes, owners)
        for start in range(0, len(stems), _WORDS_AT_ONCE):
            some = slice(start, start + _WORDS_AT_ONCE)
            stems[some] = with_meaning(stems[some], words, meant)
        of_names = sums_of(stems, sizes), owners, owners < 0, lengths
        columns.append(tuple(map(np.asarray, of_names, kinds)))
        meanings = {"words": words, "meant": meant}
    hashes, owners, preferred, lengths = map(np.concatenate, zip(*columns))
    order = np.lexsort((owners, hashes))
    hashes, owners, preferred, lengths = (x[order] for x in (hashes, owners, preferred, lengths))
    is_new = np.diff(hashes, prepend=~hashes[:1]) != 0
    names = np.flatnonzero(is_new)  # the rows that begin a name, and those of a name and an owner
    owned = np.flatnonzero(is_new | (np.diff(owners, prepend=-1) != 0))
    filter = np.zeros(1 << (len(names) * _SLOTS_PER_NAME).bit_length(), bool)
    for of_block in beginnings:
        filter[of_block & np.uint64(len(filter) - 1)] = True
    filled = {
        "hashes": hashes[names],
        "bounds": np.append(np.searchsorted(owned, names), len(owned)).astype(np.uint32),
        "owners": owners[owned].astype(np.int32),
        "preferred": np.maximum.reduceat(preferred, owned).astype(bool),
        "lengths": np.maximum.reduceat(lengths, names).astype(np.uint8),
        "beginnings": filter,
        **meanings,
    }
    table = np.zeros(1, [(name, column.dtype, column.shape) for name, column in filled.items()])
    for name, column in filled.items():
        table[name][0] = column
    return table


def _hashed(pieces: Pieces, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each text, uint64 [n], and the distinct hashes of all their beginnings."""
    counts = np.diff(pieces.first) - 1
    runs = np.zeros(len(counts), np.uint64)
    beginnings = [runs[:0]]
    for length in range(counts.max(initial=0)):
        longer = np.flatnonzero(counts > length)
        runs[longer] = runs[longer] * _BASE + hashes[pieces.first[longer] + length]
        beginnings.append(runs[longer])
    return runs, np.unique(np.concatenate(beginnings))
