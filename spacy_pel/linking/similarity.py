"""How like mentions and the names of their candidates are: by trigrams of letters, and by words.

All is done in arrays: there are some hundred names a mention.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from string import punctuation
from typing import NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.names_by_words import stemmed
from ..kb.records.entity import Entity
from ..kb.records.plain_text import plain

_WORD = re.compile(r"\w+")
_CODES = 4093  # hashes of trigrams
_EDGE, _END = "\1", "\n"  # no name has them
_MARKS = punctuation.encode()
_BLANKS = bytes.maketrans(_MARKS, b" " * len(_MARKS))

Tokens = tuple[np.ndarray, np.ndarray]  # those of texts as numbers, and where each text begins


def trigram_similarity(
    surfaces: Sequence[str], numbers: np.ndarray, entities: Mapping[int, Entity]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Dice's coefficient of each mention and the most similar name of a candidate, and its first name.

    Args:
        surfaces: The n mentions, normalised, in American spelling.
        numbers: int64 [n, k], the numbers of their candidates; -1 for no candidate.
        entities: The candidates by their numbers, ascending.

    Returns:
        Two arrays [n, k], from 0 to 1; and int64 [n, k], the place of the most similar name among those
        of the candidate, the first of several.
    """
    names = [entity.names for entity in entities.values()]
    of_names = _trigrams([name for own in names for name in own])
    counts = np.array(list(map(len, names)), dtype=np.int64)
    own, weights = _trigrams(surfaces), np.ones(_CODES)
    pairs = _compared(surfaces, numbers, entities, counts, of_names, own, weights)
    dice = np.minimum(2 * pairs.shared / (pairs.of_name + pairs.of_mention), 1.0)
    best = pairs.most(dice)
    is_best = np.flatnonzero(dice == np.repeat(best, np.diff(pairs.starts, append=len(dice))))
    first = is_best[np.searchsorted(is_best, pairs.starts)] - pairs.starts
    return pairs.filled(best), pairs.filled(dice[pairs.starts]), pairs.filled(first).astype(int)


def word_similarity(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, entities: Mapping[int, Entity]
) -> list[np.ndarray]:
    """How much of each mention's words, of which rare ones count more, names of a candidate have.

    Arguments are those of ``trigram_similarity``, and ``kb`` says how rare words are.

    Returns:
        Four arrays [n, k], from 0 to 1: the share of the mention that is in a name, Dice's coefficient, and
        the share of a name that is in the mention, each at its best; and the share of the mention that
        is in all names together.
    """
    words: list[list[str]] = []
    for entity in entities.values():
        own = list(map(_WORD.findall, map(plain, entity.names)))
        words += [*own, list(chain.from_iterable(own))]  # behind its names all of them together
    first = len(words)
    words += map(_WORD.findall, surfaces)
    stems = [stemmed(word) for own in words for word in own]
    known = {stem: code for code, stem in enumerate(sorted(set(stems)))}
    weights = np.array([kb.rarity(stem) if stem else 0.0 for stem in known])
    codes = np.array([known[stem] for stem in stems], dtype=np.int64)
    texts = np.repeat(np.arange(len(words)), list(map(len, words)))
    once = np.unique(texts * len(known) + codes)  # a word counts once in a text
    bounds = np.searchsorted(once, np.arange(len(words) + 1) * len(known))
    codes = once % max(len(known), 1)
    of_names = codes[: bounds[first]], bounds[: first + 1]
    own = codes[bounds[first] :], bounds[first:] - bounds[first]
    counts = np.array([1 + len(entity.names) for entity in entities.values()], dtype=np.int64)
    pairs = _compared(surfaces, numbers, entities, counts, of_names, own, weights)
    is_all = np.zeros(len(pairs.shared), dtype=bool)
    is_all[np.append(pairs.starts, len(is_all))[1:] - 1] = True
    said = pairs.shared / np.maximum(pairs.of_mention, 1e-6)
    together, said[is_all] = said[is_all], 0.0
    shared = np.where(is_all, 0.0, pairs.shared)
    dice = 2 * shared / np.maximum(pairs.of_name + pairs.of_mention, 1e-6)
    needed = shared / np.maximum(pairs.of_name, 1e-6)
    return list(map(pairs.filled, (*map(pairs.most, (said, dice, needed)), together)))


class _Compared(NamedTuple):
    """The names of candidates beside their mentions, each pair of a mention and a candidate once.

    The first three are the weight of the tokens that a name shares, of all of its own, and of all of the
    mention's: float64 [m].
    """

    shared: np.ndarray
    of_name: np.ndarray
    of_mention: np.ndarray
    starts: np.ndarray  # where the names of each pair begin
    there: np.ndarray  # bool [n, k], whether there is a candidate
    again: np.ndarray  # the pair of each candidate

    def most(self, values: np.ndarray) -> np.ndarray:
        """The largest value of each pair."""
        return np.maximum.reduceat(values, self.starts) if len(values) else values

    def filled(self, values: np.ndarray) -> np.ndarray:
        """The values of pairs at all candidates, [n, k]; 0 where there is none."""
        of_all = np.zeros(self.there.shape)
        of_all[self.there] = values[self.again]
        return of_all


def _compared(
    surfaces: Sequence[str],
    numbers: np.ndarray,
    entities: Mapping[int, Entity],
    counts: np.ndarray,
    of_names: Tokens,
    of_surfaces: Tokens,
    weights: np.ndarray,
) -> _Compared:
    """``counts``, int64, are the names of each entity; ``weights``, float64, those of tokens."""
    there = numbers >= 0
    # A mention with the words of another is compared once with each candidate.
    firsts = {surface: line for line, surface in reversed(list(enumerate(surfaces)))}
    lines = np.array([firsts[surface] for surface in surfaces], dtype=np.int64)
    lines = np.repeat(lines, numbers.shape[1])[there.ravel()]
    places = np.searchsorted(np.array(list(entities), dtype=np.int64), numbers[there])
    pairs, again = np.unique(lines * len(counts) + places, return_inverse=True)
    lines, places = np.divmod(pairs, max(len(counts), 1))
    asked = _ranges((counts.cumsum() - counts)[places], counts[places])  # names of each candidate
    lines = np.repeat(lines, counts[places])
    (codes, bounds), (own, own_bounds) = of_names, of_surfaces
    distinct, columns = np.unique(own, return_inverse=True)  # few of the names' are among these
    is_own = np.zeros((len(surfaces), len(distinct) + 1), dtype=bool)  # the last is of the others
    is_own[np.repeat(np.arange(len(surfaces)), np.diff(own_bounds)), columns] = True
    column_of = np.full(len(weights), -1)
    column_of[distinct] = np.arange(len(distinct))
    lengths = np.diff(bounds)[asked]
    tokens = codes[_ranges(bounds[asked], lengths)]
    names = np.repeat(np.arange(len(asked)), lengths)
    hits = is_own[lines[names], column_of[tokens]]
    size = len(asked)
    return _Compared(
        np.bincount(names[hits], weights[tokens[hits]], size),
        _sums(weights[codes], bounds)[asked],
        _sums(weights[own], own_bounds)[lines],
        counts[places].cumsum() - counts[places],
        there,
        again,
    )


def _sums(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The sum of the values between each two bounds, to the last bit whatever stands beside them."""
    n = len(bounds) - 1
    return np.bincount(np.repeat(np.arange(n), np.diff(bounds)), values, n)


def _trigrams(texts: Sequence[str]) -> Tokens:
    """The trigrams of texts as hashes.

    They are of bytes in lower case, punctuation being a blank, with two bytes before and one behind.
    """
    joined = plain("".join(f"{_EDGE}{_EDGE}{text}{_EDGE}{_END}" for text in texts))
    lower = joined.encode("utf8", "replace").lower().translate(_BLANKS)
    letters = np.frombuffer(lower, np.uint8)
    blank = letters == ord(" ")
    letters = letters[~(blank & np.roll(blank, 1))].astype(np.uint32)
    ends = letters == ord(_END)
    inside = ~(ends[:-2] | ends[1:-1] | ends[2:])
    hashes = (letters[:-2] * 961 + letters[1:-1] * 31 + letters[2:]) % _CODES
    counts = np.diff(np.flatnonzero(ends), prepend=-1) - 3
    return hashes[inside], np.concatenate([[0], counts.cumsum()])


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers from each start on, so many of them as its length, one range after the other."""
    return np.repeat(starts - lengths.cumsum() + lengths, lengths) + np.arange(lengths.sum())
