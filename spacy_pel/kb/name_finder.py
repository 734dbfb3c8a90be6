"""Find the names of a knowledge base in text by a table of their hashes."""

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

import numpy as np

from .names_by_words import phrases, stem_sums, stems_in, synonymous_words, with_synonyms
from .pieces import Pieces, hash_of, is_case_sensitive
from .records.entity import Entity
from .records.names import american
from .records.plain_text import plain

_ANY_LENGTH = 255  # the stored length of case-sensitive names: ``min_length`` ignores them
_BASE = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_PER_NAME = 8  # of the filter of prefixes; rounded up to a power of two
_NAME_BATCH_SIZE, _WORD_BATCH_SIZE = 20_000, 1_000_000
_CACHE_SIZE = 50_000  # pieces whose hashes are cached


class NameMatches(NamedTuple):
    """Names in a text, from left to right: int64 [n]."""

    first: np.ndarray  # the first piece of each name
    last: np.ndarray  # its last piece
    names: np.ndarray  # its number in the finder


class NameFinder:
    """Find the longest names of a KB in text, and their entities.

    Names and texts are compared as plain text. A name contains a letter, and begins and ends at word
    boundaries. Of overlapping names the leftmost, then the longest is returned. White space is ignored, and
    so are case and British spelling, unless the name ``is_case_sensitive``.

    A name is stored as a hash of 64 bits; a filter stores the hashes of its prefixes: 33 bytes per name in
    all. Two names have the same hash with a probability of 2^-64.

    Args:
        table: The result of ``name_table``, for example mapped from a file.
        min_length: The length of the shortest name in characters. Case-sensitive names may be shorter.
        stop_words: Names to ignore, in any case. Case-sensitive names are found even so.
        entities: The numbers of the entities whose names are found; None: of all.

    Attributes:
        owners: int32 [m], the numbers of the entities of all names, name by name, ascending.
        preferred: bool [m], whether the name is the canonical one of this owner.
        bounds: uint32 [n + 1], the bounds of each name's owners.
        wanted: bool [n], whether the arguments admit the name.
    """

    def __init__(
        self,
        table: np.ndarray,
        *,
        min_length: int = 3,
        stop_words: Collection[str] = (),
        entities: np.ndarray | None = None,
    ) -> None:
        columns = {name: np.asarray(table[name][0]) for name in table.dtype.names or ()}
        self.owners, self.preferred = columns["owners"], columns["preferred"]
        self.bounds = columns["bounds"]
        self._hashes, self._prefixes = columns["hashes"], columns["beginnings"]
        # Words and their synonyms; None if names are not found in any order of their words.
        self._synonyms = (columns["words"], columns["meant"]) if "words" in columns else None
        self._slot_mask = np.uint64(len(self._prefixes) - 1)
        self.wanted = columns["lengths"] >= min_length
        if stop_words:
            pieces = Pieces(list(stop_words))
            names, exist = self._lookup(_text_hashes(pieces, pieces.hashes(_folded))[0])
            self.wanted[names[exist]] = False
        if entities is not None and len(self.owners):
            owned = np.isin(self.owners, entities)
            self.wanted &= np.logical_or.reduceat(owned, self.bounds[:-1])

    def find(self, text: str) -> list[tuple[int, int, np.ndarray]]:
        """Return the start, the end and the entity numbers of each name in a text."""
        pieces = Pieces([text])
        first, last, names = self.find_in(pieces)
        bounds = pieces.starts[first].tolist(), pieces.ends[last].tolist()
        return list(zip(*bounds, map(self.owners_of, names.tolist())))

    def owners_by_words(self, name: str) -> np.ndarray:
        """Return the numbers of the entities that have these words, two or more, as a name: int32."""
        assert self._synonyms is not None
        stems = with_synonyms(stems_in(Pieces([name])), *self._synonyms)
        [place], [exists] = self._lookup(stems.sum(keepdims=True))
        return self.owners_of(place) if exists and (stems != 0).sum() > 1 else self.owners[:0]

    def owners_of(self, name: int) -> np.ndarray:
        """Return the numbers of the entities that have a name: int32."""
        return self.owners[self.bounds[name] : self.bounds[name + 1]]

    def find_in(self, pieces: Pieces, nested: bool = False) -> NameMatches:
        """Return the names in texts; with ``nested`` also those that begin inside another."""
        names, lengths = self._longest(pieces)
        at = np.flatnonzero(lengths)
        goes_on = pieces.paragraphs[at] != pieces.paragraphs[at + lengths[at] - 1]
        lengths[at[goes_on]] = 0
        starts, end = list[int](), 0
        for start in np.flatnonzero(lengths).tolist():
            if nested or start >= end:
                starts.append(start)
                end = start + lengths[start]
        first = np.array(starts, dtype=np.int64)
        return NameMatches(first, first + lengths[first] - 1, names[first])

    def _longest(self, pieces: Pieces) -> tuple[np.ndarray, np.ndarray]:
        """Return the longest name from each piece on, and its length in pieces; 0 for none: int64 [n]."""
        n = len(pieces.words)
        hashes = np.concatenate([pieces.hashes(_folded), pieces.hashes(_exact)])
        alive, runs = np.arange(2 * n), np.zeros(2 * n, np.uint64)
        names, lengths = np.zeros((2, 2 * n), np.int64)
        length = 0
        while True:
            runs = runs * _BASE + hashes.take(alive + length, mode="clip")
            length += 1
            is_prefix = self._prefixes[runs & self._slot_mask]
            alive, runs = alive[is_prefix], runs[is_prefix]
            if not len(alive):
                break
            places, exist = self._lookup(runs)
            exist &= self.wanted[places]
            at = alive[exist]
            names[at], lengths[at] = places[exist], length
        is_exact = lengths[n:] >= lengths[:n]
        names, lengths = (np.where(is_exact, x[n:], x[:n]) for x in (names, lengths))
        if self._synonyms and len(self._hashes):
            stems = with_synonyms(stems_in(pieces), *self._synonyms)
            sums = np.concatenate([np.zeros(1, np.uint64), stems.cumsum()])
            for first, last in phrases(pieces, stems):
                places, exist = self._lookup(sums[last + 1] - sums[first])
                exist &= self.wanted[places] & (last - first >= lengths[first])
                at = first[exist]
                names[at], lengths[at] = places[exist], (last - first + 1)[exist]
        return names, lengths

    def _lookup(self, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the names with these hashes, and whether they exist."""
        if not len(self._hashes):
            return np.zeros(len(runs), np.int64), np.zeros(len(runs), bool)
        places = self._hashes.searchsorted(runs)
        np.minimum(places, len(self._hashes) - 1, out=places)
        return places, self._hashes[places] == runs


@lru_cache(_CACHE_SIZE)
def _folded(piece: str) -> int:
    return hash_of(american(piece.casefold()), b"folded")


@lru_cache(_CACHE_SIZE)
def _exact(piece: str) -> int:
    return hash_of(piece, b"exact")


def name_table(
    entities: Iterable[Entity], numbers: np.ndarray, in_any_order: bool = False
) -> np.ndarray:
    """Compute the table of the names of entities, which have these numbers: an array of one record.

    Its columns are those of ``NameFinder``; "hashes" ascend, and "lengths" are in characters. Names that are
    also found by their words in any order have a second hash, the sum of their stems. "words" and "meant" are
    stems and their synonyms. This takes 20 microseconds and a third of a kilobyte of memory per name.
    """
    kinds = (np.uint64, np.int32, bool, np.uint8)  # of the columns: hashes, owners, and so on
    columns = [[np.empty(0, kind) for kind in kinds]]
    prefixes, stem_blocks = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    by_words = [np.empty((3, 0), np.int32)]
    facts = (
        (name, number, name == entity.canonical_name, is_case_sensitive(plain(name)))
        for entity, number in zip(entities, numbers.tolist())
        for name in entity.names
        if any(map(str.isalpha, name))
    )
    while block := list(islice(facts, _NAME_BATCH_SIZE)):
        names, name_owners, is_preferred, exact_names = zip(*block)
        pieces, is_exact_name = Pieces(names), np.array(exact_names)
        hashes, is_exact = pieces.hashes(_folded), is_exact_name[pieces.texts]
        hashes[is_exact] = np.fromiter(map(_exact, compress(pieces.words, is_exact)), np.uint64)
        lengths = np.minimum(list(map(len, names)), _ANY_LENGTH)
        lengths[is_exact_name] = _ANY_LENGTH
        name_hashes, prefix_hashes = _text_hashes(pieces, hashes)
        values = name_hashes, name_owners, is_preferred, lengths
        columns.append([np.asarray(value, kind) for value, kind in zip(values, kinds)])
        prefixes.append(prefix_hashes)
        if in_any_order:
            stems = np.where(is_exact, np.uint64(0), stems_in(pieces))
            sizes = np.bincount(pieces.texts[stems != 0], minlength=len(names))
            is_phrase = sizes > 1
            stem_blocks.append(stems[is_phrase[pieces.texts] & (stems != 0)])
            by_words.append(np.array([name_owners, lengths, sizes], np.int32)[:, is_phrase])
    synonyms = {}
    if in_any_order:
        stems = np.concatenate(stem_blocks)
        owners, lengths, sizes = np.concatenate(by_words, axis=1).astype(np.int64)
        words, meant = synonymous_words(stems, sizes, owners)
        for start in range(0, len(stems), _WORD_BATCH_SIZE):
            batch = slice(start, start + _WORD_BATCH_SIZE)
            stems[batch] = with_synonyms(stems[batch], words, meant)
        phrase_columns = stem_sums(stems, sizes), owners, owners < 0, lengths
        columns.append([np.asarray(value, kind) for value, kind in zip(phrase_columns, kinds)])
        synonyms = {"words": words, "meant": meant}
    hashes, owners, preferred, lengths = map(np.concatenate, zip(*columns))
    order = np.lexsort((owners, hashes))
    hashes, owners, preferred, lengths = (x[order] for x in (hashes, owners, preferred, lengths))
    is_new = np.diff(hashes, prepend=~hashes[:1]) != 0
    firsts = np.flatnonzero(is_new)  # the first rows of names, and of pairs of a name and an owner
    pairs = np.flatnonzero(is_new | (np.diff(owners, prepend=-1) != 0))
    prefix_filter = np.zeros(1 << (len(firsts) * _SLOTS_PER_NAME).bit_length(), bool)
    for prefix_hashes in prefixes:
        prefix_filter[prefix_hashes & np.uint64(len(prefix_filter) - 1)] = True
    fields = {
        "hashes": hashes[firsts],
        "bounds": np.append(np.searchsorted(pairs, firsts), len(pairs)).astype(np.uint32),
        "owners": owners[pairs].astype(np.int32),
        "preferred": np.maximum.reduceat(preferred, pairs).astype(bool),
        "lengths": np.maximum.reduceat(lengths, firsts).astype(np.uint8),
        "beginnings": prefix_filter,
        **synonyms,
    }
    table = np.zeros(1, [(name, column.dtype, column.shape) for name, column in fields.items()])
    for name, column in fields.items():
        table[name][0] = column
    return table


def _text_hashes(pieces: Pieces, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of each text, uint64 [n], and the distinct hashes of all their prefixes."""
    counts = np.diff(pieces.first) - 1
    runs = np.zeros(len(counts), np.uint64)
    prefixes = [runs[:0]]
    for length in range(counts.max(initial=0)):
        longer = np.flatnonzero(counts > length)
        runs[longer] = runs[longer] * _BASE + hashes[pieces.first[longer] + length]
        prefixes.append(runs[longer])
    return runs, np.unique(np.concatenate(prefixes))
