"""The names of a knowledge base as a table of hashes, which finds them in text."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from ..kb.records.entity import Entity
from .pieces import BREAK, Pieces

_NAMES_AT_ONCE = 20_000
# Bits of the filter of beginnings for each name. They are rounded up to a power of two.
_BITS_PER_NAME = 16
# What a name without one owner has in place of an entity number.
NOBODY = -1


class FoundNames(NamedTuple):
    """Names that were found.

    Attributes:
        first: int64 [n], the first piece of each.
        last: int64 [n], its last piece.
        owners: int64 [n], the number of the entity that alone has the name.
    """

    first: np.ndarray
    last: np.ndarray
    owners: np.ndarray


class NameTable:
    """Finds names in text, and says whose they are. Whole words are found; see ``pieces``.

    A name is held as a hash of 64 bits and the number of its owner, and its beginnings as bits of a
    filter: 20 bytes a name, whatever its length. (An automaton of ahocorasick_rs takes a multiple of
    this, and processes cannot share it.)

    All names of all entities must be given. A name of several entities is never returned, and
    neither is another name inside it.

    Attributes:
        hashes: uint64 [n], ascending.
        owners: int32 [n], the numbers of entities; NOBODY for a name that is not to be returned.
        beginnings: uint8, a filter of what names begin with.
    """

    def __init__(self, hashes: np.ndarray, owners: np.ndarray, beginnings: np.ndarray) -> None:
        self.hashes = hashes
        self.owners = owners
        self.beginnings = beginnings

    def found(self, pieces: Pieces) -> FoundNames:
        """The names in texts: from the left, the longest at each place; they do not overlap."""
        alive = np.arange(len(pieces))
        longest = np.zeros(len(pieces), np.int64)  # pieces of the name that begins here
        names = np.zeros(len(pieces), np.int64)
        length = 0
        while len(alive := alive[alive + length < len(pieces)]):
            hashes = pieces.hashes(alive, alive + length)
            length += 1
            begins = _has_bits(self.beginnings, hashes)
            alive, hashes = alive[begins], hashes[begins]
            places = np.searchsorted(self.hashes, hashes)
            places[places == len(self.hashes)] = 0
            are_names = self.hashes[places] == hashes
            longest[alive[are_names]] = length
            names[alive[are_names]] = places[are_names]
        first = _without_overlaps(np.flatnonzero(longest), longest)
        owners = self.owners[names[first]].astype(np.int64)
        has_owner = owners != NOBODY
        first = first[has_owner]
        return FoundNames(first, first + longest[first] - 1, owners[has_owner])


def name_table(
    entities: Iterable[Entity],
    numbers: Iterable[int],
    *,
    aliases: bool = False,
    min_length: int = 3,
    stop_words: Collection[str] = (),
) -> NameTable:
    """The table of the names of entities.

    Args:
        entities: All entities of a KB, as a stream.
        numbers: Their numbers.
        aliases: Whether aliases are to be returned, or only preferred names.
        min_length: Shorter names, in characters, are not returned, nor those without a letter.
        stop_words: Words, in lower case, that are not returned; an acronym ("ALL") is none.
    """
    names: list[str] = []
    owners: list[int] = []
    wanted: list[bool] = []
    blocks: list[_Block] = []

    def end_block() -> None:
        blocks.append(_block(names, owners, wanted))
        for column in (names, owners, wanted):
            column.clear()

    for entity, number in zip(entities, numbers):
        for name in entity.names:
            is_usable = len(name) >= min_length and any(map(str.isalpha, name))
            names.append(name.replace(BREAK, " "))
            owners.append(number)
            wanted.append(
                is_usable
                and (aliases or name == entity.canonical_name)
                and not is_stop_word(name, stop_words)
            )
        if len(names) >= _NAMES_AT_ONCE:
            end_block()
    end_block()
    return _table(*map(np.concatenate, zip(*blocks)))


def is_stop_word(name: str, stop_words: Collection[str]) -> bool:
    """Whether a name is one of these words. Text keeps the case of a word of two capitals."""
    return sum(map(str.isupper, name)) < 2 and name.lower() in stop_words


class _Block(NamedTuple):
    """Names as hashes: with owners, whether they are wanted, and the hashes of their beginnings."""

    hashes: np.ndarray
    owners: np.ndarray
    wanted: np.ndarray
    beginnings: np.ndarray


def _block(names: list[str], owners: list[int], wanted: list[bool]) -> _Block:
    pieces = Pieces(names)
    n_characters = np.cumsum([len(name) + len(BREAK) for name in names], dtype=np.int64)
    after = np.searchsorted(pieces.starts, n_characters - 1)  # the piece that is the BREAK
    first = np.concatenate(([0], after[:-1] + 1)) if names else after
    is_filled = first < after
    first, after = first[is_filled], after[is_filled]
    lengths = after - first
    starts = np.repeat(first, lengths)
    ends = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + starts
    return _Block(
        pieces.hashes(first, after - 1),
        np.array(owners, dtype=np.int32)[is_filled],
        np.array(wanted, dtype=bool)[is_filled],
        np.unique(pieces.hashes(starts, ends)),
    )


def _table(
    hashes: np.ndarray, owners: np.ndarray, wanted: np.ndarray, beginnings: np.ndarray
) -> NameTable:
    """The table of names that may occur several times, of one entity or of several."""
    order = np.lexsort((owners, hashes))
    hashes, owners, wanted = hashes[order], owners[order], wanted[order]
    firsts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1]))[: len(hashes)])
    if len(firsts):
        lasts = np.concatenate((firsts[1:], [len(hashes)])) - 1
        is_returned = np.logical_or.reduceat(wanted, firsts) & (owners[firsts] == owners[lasts])
        hashes, owners = hashes[firsts], np.where(is_returned, owners[firsts], NOBODY)
    n_bytes = 1 << max(len(hashes) * _BITS_PER_NAME // 8 - 1, 1).bit_length()
    bits = np.zeros(n_bytes, np.uint8)
    byte, bit = _place(beginnings, bits)
    np.bitwise_or.at(bits, byte, bit)
    return NameTable(hashes, owners.astype(np.int32), bits)


def _place(hashes: np.ndarray, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The byte and the bit of each hash in a filter."""
    byte = (hashes >> np.uint64(3)) & np.uint64(len(bits) - 1)
    return byte, np.uint8(1) << (hashes & np.uint64(7)).astype(np.uint8)


def _has_bits(bits: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    byte, bit = _place(hashes, bits)
    return (bits[byte] & bit) != 0


def _without_overlaps(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Of names that begin at these pieces, ascending, those that begin after the last one ended."""
    kept, end = [], 0
    for start, after in zip(starts.tolist(), (starts + lengths[starts]).tolist()):
        if start >= end:
            kept.append(start)
            end = after
    return np.array(kept, dtype=np.int64)
