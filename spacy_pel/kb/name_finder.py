"""Find the names of a knowledge base in text by a table of their hashes."""

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

import numpy as np

from .ordinary_words import ORDINARY_WORDS
from .pieces import Pieces, hash_of, is_case_sensitive, runs
from .records.entity import Entity
from .records.names import american
from .records.plain_text import plain
from .word_forms import (
    CANONICAL,
    OF,
    OTHER,
    form_table,
    in_one_form,
    name_words,
    ranked_names,
    word_hashes,
)
from .word_synonyms import reworded

_ANY_LENGTH = 255  # the stored length of case-sensitive names: ``min_length`` ignores them
_BASE = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_PER_NAME = 8  # of the filter of prefixes; rounded up to a power of two
_NAME_BATCH_SIZE = 20_000
_MAX_SWAPPED = 4  # words on each side of "of"
_CACHE_SIZE = 50_000  # pieces whose hashes are cached


class NameMatches(NamedTuple):
    """Names in a text, from left to right: int64 [n]."""

    first: np.ndarray  # the first piece of each name
    last: np.ndarray  # its last piece
    names: np.ndarray  # its number in the finder


class NameFinder:
    """Find the longest names of a KB in text, and their entities.

    The finder compares names and texts as plain text. A name contains a letter, and begins and ends at word
    boundaries. Of overlapping names, the finder returns the leftmost, then the longest. It ignores white
    space. It ignores case and British spelling unless the name ``is_case_sensitive``.

    The table stores a 64-bit hash of each name, and a filter of the hashes of its prefixes: 33 bytes per name
    in all. Two names have the same hash with a probability of 2^-64.

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
        ordinary: bool [n], whether the name is an ordinary word (``ORDINARY_WORDS``) in any form; without
            word forms, none is.
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
        # Forms and their words; None if words are compared as they are.
        self._forms = (columns["forms"], columns["words"]) if "forms" in columns else None
        self._remembered: dict[str, np.ndarray] = {}  # of ``owners_by_forms``
        self._slot_mask = np.uint64(len(self._prefixes) - 1)
        self._is_canonical = np.zeros(len(self._hashes), bool)  # of an entity
        if self._forms and len(self._hashes):
            self._is_canonical = np.logical_or.reduceat(self.preferred, self.bounds[:-1])
        self.wanted = columns["lengths"] >= min_length
        if stop_words:
            self.wanted[self._names_of(list(stop_words))] = False
        self.ordinary = np.zeros(len(self._hashes), bool)
        if self._forms is not None:
            self.ordinary[self._names_of(ORDINARY_WORDS)] = True
        if entities is not None and len(self.owners):
            owned = np.isin(self.owners, entities)
            self.wanted &= np.logical_or.reduceat(owned, self.bounds[:-1])

    def _names_of(self, words: list[str]) -> np.ndarray:
        """Return the numbers of the names that are one of these words, in any form: int64."""
        pieces = Pieces(words)
        kinds = [(pieces.first, pieces.hashes(_folded))]
        kinds += [] if self._forms is None else [name_words(words, *self._forms)[:2]]
        found = [self._lookup(_text_hashes(*kind)[0]) for kind in kinds]
        return np.concatenate([names[exist] for names, exist in found])

    def find(self, text: str) -> list[tuple[int, int, np.ndarray]]:
        """Return the start, the end and the entity numbers of each name in a text."""
        pieces = Pieces([text])
        first, last, names = self.find_in(pieces)
        bounds = pieces.starts[first].tolist(), pieces.ends[last].tolist()
        return list(zip(*bounds, map(self.owners_of, names.tolist())))

    def owners_by_forms(self, name: str) -> np.ndarray:
        """Return the numbers of the entities that have a name with these words in any form: int32."""
        owners = self._remembered.get(name)
        if owners is None:
            pieces = Pieces([name])
            first, lengths, names = self._matches(pieces)
            is_whole = len(first) and (first[0], lengths[0]) == (0, len(pieces.words) - 1)
            owners = self.owners_of(names[0]) if is_whole else self.owners[:0]
            if len(self._remembered) >= _CACHE_SIZE:
                self._remembered.clear()
            self._remembered[name] = owners
        return owners

    def owners_of(self, name: int) -> np.ndarray:
        """Return the numbers of the entities that have a name: int32."""
        return self.owners[self.bounds[name] : self.bounds[name + 1]]

    def owners_of_all(self, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the owners of names, int64 [n], name by name: int32; and their counts: int64 [n]."""
        firsts, after = self.bounds[[names, names + 1]].astype(np.int64)
        counts = after - firsts
        return self.owners[runs(firsts, counts)], counts

    def is_canonical(self, name: int) -> bool:
        """Tell whether an entity has this name, in any of its forms, as its canonical name."""
        return bool(self.preferred[self.bounds[name] : self.bounds[name + 1]].any())

    def find_in(self, pieces: Pieces, nested: bool = False) -> NameMatches:
        """Return the names in texts. With ``nested``, also return the names inside a name, after it."""
        first, lengths, names = self._matches(pieces, nested)
        inside = pieces.paragraphs[first] == pieces.paragraphs[first + lengths - 1]
        chosen, end = list[int](), 0
        for row in np.flatnonzero(inside).tolist():
            if nested or first[row] >= end:
                chosen.append(row)
                end = first[row] + lengths[row]
        first, lengths, names = first[chosen], lengths[chosen], names[chosen]
        return NameMatches(first, first + lengths - 1, names)

    def _matches(
        self, pieces: Pieces, nested: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the longest name that starts at each piece; with ``nested``, all names, longest first.

        Of names of the same length, a canonical name precedes a synonym, and the spelling of the KB precedes
        other forms.

        Returns:
            The first piece, the length in pieces and the number of each name, int64 [n].
        """
        matches = [np.empty((3, 0), np.int64)]
        if self._forms is not None:
            words = in_one_form(word_hashes(pieces), *self._forms)
            places = np.flatnonzero(words)
            for first, last, names in [*self._swapped(words[places]), *self._runs(words[places])]:
                matches.append(np.stack([places[first], places[last], names]))
        for hashes in pieces.hashes(_folded), pieces.hashes(_exact):
            matches += map(np.stack, self._runs(hashes))
        first, last, names = np.concatenate(matches, axis=1)
        order = np.lexsort((np.arange(len(first)), self._is_canonical[names], last, -first))[::-1]
        first, last, names = first[order], last[order], names[order]
        is_new = np.diff(first, prepend=-1) != 0
        if nested:
            is_new |= np.diff(last, prepend=-1) != 0
        return first[is_new], (last - first + 1)[is_new], names[is_new]

    def _runs(self, hashes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the runs of hashes, uint64 [n], that are names, by length: first, last, name."""
        first, runs = np.arange(len(hashes)), np.zeros(len(hashes), np.uint64)
        length = 0
        while len(first):
            runs, first = self._longer(runs, first, hashes[first + length])
            names, exist = self._lookup(runs)
            exist &= self.wanted[names]
            yield first[exist], first[exist] + length, names[exist]
            length += 1
            inside = first + length < len(hashes)
            runs, first = runs[inside], first[inside]

    def _longer(
        self, runs: np.ndarray, places: np.ndarray, hashes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the runs, each with one more hash, that begin a name, and their places."""
        runs = runs * _BASE + hashes
        is_prefix = self._prefixes[runs & self._slot_mask]
        return runs[is_prefix], places[is_prefix]

    def _swapped(self, words: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the runs of words, uint64 [n], such as "wall of the heart" for "heart wall"."""
        links = np.flatnonzero(words == OF)
        runs = np.zeros(len(links), np.uint64)
        for n_right in range(1, _MAX_SWAPPED + 1):
            inside = links + n_right < len(words)
            runs, links = self._longer(runs[inside], links[inside], words[links[inside] + n_right])
            if not len(links):
                break
            for n_left in range(1, _MAX_SWAPPED + 1):
                whole, link = runs[links >= n_left], links[links >= n_left]
                for step in range(n_left, 0, -1):
                    whole, link = self._longer(whole, link, words[link - step])
                names, exist = self._lookup(whole)
                exist &= self.wanted[names]
                link = link[exist]
                yield link - n_left, link + n_right, names[exist]

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
    entities: Iterable[Entity], numbers: np.ndarray, word_forms: bool = False
) -> np.ndarray:
    """Compute the table of the names of entities. This takes 20 microseconds and 330 bytes per name.

    Args:
        entities: The entities.
        numbers: int64 [n], their numbers.
        word_forms: Add hashes of each name's words in one form, and the columns "forms" and "words", which
            map the hashes of forms to those of words.

    Returns:
        An array of one record with the columns of ``NameFinder``. "hashes" ascend. "lengths" count
        characters.
    """
    kinds = (np.uint64, np.int32, np.uint8, np.uint8)  # of the columns: hashes, owners, and so on
    columns = [[np.empty(0, kind) for kind in kinds]]
    prefixes = [np.empty(0, np.uint64)]

    def add(bounds: np.ndarray, hashes: np.ndarray, *values: np.ndarray) -> None:
        name_hashes, prefix_hashes = _text_hashes(bounds, hashes)
        columns.append([np.asarray(v, kind) for v, kind in zip((name_hashes, *values), kinds)])
        prefixes.append(prefix_hashes)

    facts = (
        (name, number, rank, is_case_sensitive(plain(name)))
        for entity, number in zip(entities, numbers.tolist())
        for name, rank in ranked_names(entity, word_forms)
        if any(map(str.isalpha, name))
    )
    phrases = []
    while block := list(islice(facts, _NAME_BATCH_SIZE)):
        names, *values = zip(*block)
        owners, ranks, is_exact_name = map(np.array, values)
        pieces = Pieces(names)
        hashes, is_exact = pieces.hashes(_folded), is_exact_name[pieces.texts]
        hashes[is_exact] = np.fromiter(map(_exact, compress(pieces.words, is_exact)), np.uint64)
        lengths = np.minimum(list(map(len, names)), _ANY_LENGTH)
        lengths[is_exact_name] = _ANY_LENGTH
        add(pieces.first, hashes, owners, ranks, lengths)
        if word_forms:
            plurals = [f"{name}s" for name in compress(names, is_exact_name)]
            pieces = Pieces(plurals)
            of_plurals = (column[is_exact_name] for column in (owners, ranks, lengths))
            add(pieces.first, pieces.hashes(_exact), *of_plurals)
            phrases += [fact for fact in block if not fact[-1]]
    forms = {}
    if word_forms and phrases:
        names, *values = zip(*phrases)
        forms["forms"], forms["words"] = form_table(names)
        bounds, hashes, texts = name_words(names, forms["forms"], forms["words"])
        lengths = np.minimum(list(map(len, names)), _ANY_LENGTH)
        owners, ranks = map(np.array, values[:2])
        add(bounds, hashes, *(column[texts] for column in (owners, ranks, lengths)))
        bounds, hashes, texts = reworded(bounds, hashes, texts, owners, ranks > OTHER)
        add(bounds, hashes, owners[texts], np.full(len(texts), OTHER), lengths[texts])
    elif word_forms:
        forms["forms"], forms["words"] = form_table([])
    hashes, owners, ranks, lengths = map(np.concatenate, zip(*columns))
    order = np.lexsort((owners, hashes))
    if word_forms and len(order):  # of the owners of a name, only those that it means first of all
        starts = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[:1]]))
        best = np.maximum.reduceat(ranks[order], starts)
        sizes = np.diff(np.append(starts, len(order)))
        # A name that is close to several entities, and exact for none, says too little.
        least, most = (f.reduceat(owners[order], starts) for f in (np.minimum, np.maximum))
        is_clear = (best > OTHER) | (least == most)
        order = order[(ranks[order] == best.repeat(sizes)) & is_clear.repeat(sizes)]
    hashes, owners, ranks, lengths = (x[order] for x in (hashes, owners, ranks, lengths))
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
        "preferred": np.maximum.reduceat(ranks, pairs) == CANONICAL,
        "lengths": np.maximum.reduceat(lengths, firsts).astype(np.uint8),
        "beginnings": prefix_filter,
        **forms,
    }
    table = np.zeros(1, [(name, column.dtype, column.shape) for name, column in fields.items()])
    for name, column in fields.items():
        table[name][0] = column
    return table


def _text_hashes(bounds: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hash of each text, uint64 [n], and the distinct hashes of all their prefixes.

    ``bounds``, int64 [n + 1], delimit the hashes of each text. The last hash of a text is that of ``BREAK``.
    """
    counts = np.diff(bounds) - 1
    runs = np.zeros(len(counts), np.uint64)
    prefixes = [runs[:0]]
    for length in range(counts.max(initial=0)):
        longer = np.flatnonzero(counts > length)
        runs[longer] = runs[longer] * _BASE + hashes[bounds[longer] + length]
        prefixes.append(runs[longer])
    return runs, np.unique(np.concatenate(prefixes))
