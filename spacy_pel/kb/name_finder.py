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
from Stemmer import Stemmer

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
# In any order: words that say nothing, other pieces that a name goes on behind, and its most pieces.
_EMPTY = frozenset("a an and at by for from in of on the to with".split())
_INSIDE = frozenset("-\u2010\u2011/'\u2019")
_MOST_PIECES = 12
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

    In any order, a name is also found by its words alone: two or more, by their stems, whatever their order
    and whatever of "the", "of" and the like stands between them. So "Abnormality of the ribs" is found
    in "abnormal ribs".

    A name is a hash of 64 bits, and a filter knows its beginnings: 33 bytes a name in all. They are one
    file in the KB's folder, which is mapped. Different names have the same hash with a chance of 2^-64.

    Args:
        table: What ``name_table`` makes, for example mapped from a file.
        min_length: Shorter names, in characters, are not found. Acronyms may be shorter.
        stop_words: Names that are not found, ignoring case. Acronyms are found even so.
        entities: The numbers of the entities whose names are found; None: of all.
        in_any_order: Whether names are also found by their words in any order.

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
        in_any_order: bool = False,
    ) -> None:
        self._in_any_order = in_any_order
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
        if self._in_any_order:
            self._add_in_any_order(pieces, names, lengths)
        first, end = [], 0
        for start in np.flatnonzero(lengths).tolist():
            if start >= end:
                first.append(start)
                end = start + lengths[start]
        first = np.array(first, dtype=np.int64)
        return FoundNames(first, first + lengths[first] - 1, names[first])

    def _add_in_any_order(self, pieces: Pieces, names: np.ndarray, lengths: np.ndarray) -> None:
        """Put names that are found by their words where they are longer than what was found."""
        stems = pieces.hashes(_stem)
        is_word = stems != 0
        sums = np.concatenate([np.zeros(1, np.uint64), stems.cumsum()])
        n_words = np.concatenate([[0], is_word.cumsum()])
        ends = [not (word[:1].isalnum() or word in _INSIDE) for word in pieces.words]
        phrases = np.cumsum(ends)
        for length in range(2, min(_MOST_PIECES, len(stems)) + 1):
            first = np.flatnonzero(is_word[: len(stems) - length + 1] & is_word[length - 1 :])
            last = first + length - 1
            fits = (phrases[first] == phrases[last]) & (n_words[last + 1] - n_words[first] > 1)
            first, last = first[fits], last[fits]
            places, are_names = self._places(sums[last + 1] - sums[first])
            first, places = first[are_names], places[are_names]
            is_best = self.wanted[places] & (length > lengths[first])
            names[first[is_best]], lengths[first[is_best]] = places[is_best], length

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


@lru_cache(_REMEMBERED)
def _stem(piece: str) -> int:
    """The hash of the stem of a word; 0 of a piece that says nothing."""
    word = american(piece.casefold())
    if word in _EMPTY or not any(map(str.isalnum, word)):
        return 0
    return _hash(Stemmer("english").stemWord(word), b"stem")


def name_table(entities: Iterable[Entity], numbers: np.ndarray) -> np.ndarray:
    """The table of the names of entities, which have these numbers: an array of one record."""
    columns, beginnings = [np.empty((4, 0), np.int64)], [np.empty(0, np.uint64)]
    stream = zip(entities, numbers.tolist())
    while block := list(islice(stream, _ENTITIES_AT_ONCE)):
        for is_exact in (False, True):
            rows = [
                (name, number, name == entity.canonical_name)
                for entity, number in block
                for name in entity.names
                if _is_acronym(name) is is_exact and any(map(str.isalpha, name))
            ]
            if not rows:
                continue
            names, *facts = zip(*rows)
            runs, of_block = _hashed(names, _exact if is_exact else _folded)
            beginnings.append(of_block)
            lengths = np.minimum(list(map(len, names)), _ANY_LENGTH)
            if is_exact:
                lengths[:] = _ANY_LENGTH
            columns.append(np.array([runs.view(np.int64), *facts, lengths]))
            if not is_exact:
                sums, n_words = _in_any_order(names)
                columns.append(np.array([sums.view(np.int64), *facts, lengths])[:, n_words > 1])
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


def _in_any_order(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each name whatever the order of its words, uint64 [n], and how many words it has."""
    pieces = Pieces(names)
    stems = pieces.hashes(_stem)
    first = pieces.first[:-1]
    if not len(first):
        return stems, first
    return np.add.reduceat(stems, first), np.add.reduceat((stems != 0).astype(np.int64), first)


def _is_acronym(name: str) -> bool:
    n_letters = sum(map(str.isalpha, name))
    return 2 <= len(name) and n_letters <= _ACRONYM and name.isupper() and len(name.split()) == 1
