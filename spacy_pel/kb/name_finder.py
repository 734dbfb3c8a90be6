"""Finds the names of a knowledge base in text, by a table of hashes in a file of its folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Any, NamedTuple

import numpy as np

from ..errors import PelError
from ..system.whole_files import whole_file
from .knowledge_base import KnowledgeBase
from .records.entity import Entity
from .records.names import american
from .transaction import NAMES_PREFIX
from .vectors.matrix import mapped

# Texts and names are compared piece by piece: a piece is a word, or one other character. White space
# only separates pieces.
_PIECE = re.compile(r"(\w+|[^\w\s])")
_BREAK = ""  # a piece behind each text, which no name has
_ACRONYM = 5  # the largest number of letters of an acronym
_ANY_LENGTH = 255  # is stored as the length of an acronym, which may be short
_BASE = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_PER_NAME = 8  # of the filter of beginnings; rounded up to a power of two
_ENTITIES_AT_ONCE = 10_000
_REMEMBERED = 200_000  # pieces whose hashes are kept


class Pieces:
    """The n pieces of texts, one text after the other: ``words``; the last of each text is ``_BREAK``.

    ``texts`` is the place of the text of each, and ``starts`` and ``ends`` are its characters in that:
    int64 [n]. The first piece of each text is ``first``, int64 [len(texts) + 1].
    """

    def __init__(self, texts: Sequence[str]) -> None:
        parts: list[str] = []  # white space or nothing, a piece, white space or nothing, and so on
        n_parts = [0]
        for text in texts:
            parts += _PIECE.split(text)
            parts.append(_BREAK)
            n_parts.append(len(parts))
        self.words = parts[1::2]
        self.first = np.array(n_parts) // 2
        counts = np.diff(self.first)
        self.texts = np.repeat(np.arange(len(texts)), counts)
        offsets = list(accumulate(map(len, texts), initial=0))
        bounds = np.fromiter(accumulate(map(len, parts)), np.int64, len(parts)).reshape(-1, 2)
        bounds -= np.repeat(offsets[:-1], counts)[:, None]
        self.starts, self.ends = bounds.T

    def hashes(self, hashed: Callable[[str], int]) -> np.ndarray:
        """The hash of each piece: uint64 [n]."""
        return np.fromiter(map(hashed, self.words), np.uint64, len(self.words))


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
        self._last_slot = np.uint64(len(self._beginnings) - 1)  # all its bits are set
        self.wanted = columns["lengths"] >= min_length
        if stop_words:
            places, are_names = self._places(_hashed(list(stop_words), _folded)[0])
            self.wanted[places[are_names]] = False
        if entities is not None and len(self.owners):
            owned = np.isin(self.owners, entities)
            self.wanted &= np.logical_or.reduceat(owned, self.bounds[:-1])

    @classmethod
    def of(
        cls,
        kb: KnowledgeBase,
        progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter,
        **choice: Any,
    ) -> NameFinder:
        """The finder of a KB. The first use makes the file, if the folder can be written to.

        ``progress`` wraps the entities that are read. ``choice`` are arguments of the class.
        """
        path = kb.path / f"{NAMES_PREFIX}{kb.settings['checksum'][:16]}.npy"
        with suppress(PelError):
            return cls(mapped(path), **choice)
        table = name_table(progress(kb), kb.numbers())
        with suppress(OSError), whole_file(path, "xb") as file:
            np.save(file, table)
        return cls(table, **choice)

    def found(self, text: str) -> list[tuple[int, int, np.ndarray]]:
        """The start and the end of each name in a text, and the numbers of the entities that own it."""
        pieces = Pieces([text])
        first, last, names = self.found_in(pieces)
        bounds = pieces.starts[first].tolist(), pieces.ends[last].tolist()
        return list(zip(*bounds, map(self.owners_of, names.tolist())))

    def owners_of(self, name: int) -> np.ndarray:
        """The numbers of the entities that have a name: int32."""
        return self.owners[self.bounds[name] : self.bounds[name + 1]]

    def found_in(self, pieces: Pieces) -> FoundNames:
        """The names in the pieces of texts."""
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
        first, end = [], 0
        for start in np.flatnonzero(lengths).tolist():
            if start >= end:
                first.append(start)
                end = start + lengths[start]
        first = np.array(first, dtype=np.int64)
        return FoundNames(first, first + lengths[first] - 1, names[first])

    def _places(self, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The names that have these hashes, and whether there are such names."""
        if not len(self._hashes):
            return np.zeros(len(runs), np.int64), np.zeros(len(runs), bool)
        places = self._hashes.searchsorted(runs)
        np.minimum(places, len(self._hashes) - 1, out=places)
        return places, self._hashes[places] == runs


def _hash(text: str, kind: bytes) -> int:
    """A random number for a text: 64 bits."""
    digest = blake2b(text.encode("utf8", "surrogatepass"), digest_size=8, person=kind).digest()
    return int.from_bytes(digest, "little")


@lru_cache(_REMEMBERED)
def _folded(piece: str) -> int:
    return _hash(american(piece.casefold()), b"folded")


@lru_cache(_REMEMBERED)
def _exact(piece: str) -> int:
    return _hash(piece, b"exact")


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
                if _is_acronym(name) is (kind is _exact) and any(map(str.isalpha, name))
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
    is_new = np.diff(hashes, prepend=~hashes[:1]) != 0
    names = np.flatnonzero(is_new)
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
    }
    table = np.zeros(1, [(name, column.dtype, column.shape) for name, column in filled.items()])
    for name, column in filled.items():
        table[name][0] = column
    return table


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


def _is_acronym(name: str) -> bool:
    n_letters = sum(map(str.isalpha, name))
    return 2 <= len(name) and n_letters <= _ACRONYM and name.isupper() and len(name.split()) == 1
