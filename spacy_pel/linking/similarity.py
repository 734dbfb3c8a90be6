"""The similarity of mentions and the names of their candidates, by trigrams of letters and by words.

The computations use arrays, because a mention is compared with some hundred names.
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
_N_TRIGRAMS = 4093  # the number of different hashes of trigrams
_EDGE, _END = "\1", "\n"  # no name has them
_MARKS = punctuation.encode()
_BLANKS = bytes.maketrans(_MARKS, b" " * len(_MARKS))

# The tokens of texts as numbers, int64 [t], and the first token of each text and, last, t: int64 [n + 1].
Tokens = tuple[np.ndarray, np.ndarray]


def trigram_similarity(
    surfaces: Sequence[str], numbers: np.ndarray, entities: Mapping[int, Entity]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compare each mention with the names of its candidates by Dice's coefficient of trigrams.

    Args:
        surfaces: The n mentions, normalised, in American spelling.
        numbers: int64 [n, k], the numbers of their candidates; -1 for no candidate.
        entities: The candidates by their numbers, ascending.

    Returns:
        The similarity of the most similar name and of the first name, float64 [n, k], 0 to 1; and the
        place of the most similar name among the names of the candidate, int64 [n, k].
    """
    names = [entity.names for entity in entities.values()]
    name_tokens = _trigrams(list(chain.from_iterable(names)))
    counts = np.array(list(map(len, names)), dtype=np.int64)
    weights = np.ones(_N_TRIGRAMS)
    pairs = _compared(
        surfaces, numbers, entities, counts, name_tokens, _trigrams(surfaces), weights
    )
    dice = np.minimum(2 * pairs.shared / (pairs.of_name + pairs.of_mention), 1.0)
    best = pairs.most(dice)
    is_best = np.flatnonzero(dice == np.repeat(best, np.diff(pairs.starts, append=len(dice))))
    first = is_best[np.searchsorted(is_best, pairs.starts)] - pairs.starts
    return pairs.filled(best), pairs.filled(dice[pairs.starts]), pairs.filled(first).astype(int)


def word_similarity(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, entities: Mapping[int, Entity]
) -> list[np.ndarray]:
    """Compare each mention with the names of its candidates by words. Rare words count more.

    The arguments are those of ``trigram_similarity``, and the KB that knows how rare words are.

    Returns:
        Four arrays, float64 [n, k], 0 to 1: the maximum over names of the share of the mention that is in
        the name, of Dice's coefficient, and of the share of the name that is in the mention; and the share
        of the mention that is in all names together.
    """
    words: list[list[str]] = []
    for entity in entities.values():
        names = [_WORD.findall(plain(name)) for name in entity.names]
        words += [*names, list(chain.from_iterable(names))]  # the last has all names together
    first = len(words)
    words += map(_WORD.findall, surfaces)
    stems = list(map(stemmed, chain.from_iterable(words)))
    known = {stem: code for code, stem in enumerate(sorted(set(stems)))}
    weights = np.array([kb.rarity(stem) if stem else 0.0 for stem in known])
    codes = np.array([known[stem] for stem in stems], dtype=np.int64)
    texts = np.repeat(np.arange(len(words)), list(map(len, words)))
    once = np.unique(texts * len(known) + codes)  # a word counts once in a text
    bounds = np.searchsorted(once, np.arange(len(words) + 1) * len(known))
    codes = once % max(len(known), 1)
    name_tokens = codes[: bounds[first]], bounds[: first + 1]
    surface_tokens = codes[bounds[first] :], bounds[first:] - bounds[first]
    counts = np.array([1 + len(entity.names) for entity in entities.values()], dtype=np.int64)
    pairs = _compared(surfaces, numbers, entities, counts, name_tokens, surface_tokens, weights)
    is_all = np.zeros(len(pairs.shared), dtype=bool)
    is_all[np.append(pairs.starts, len(is_all))[1:] - 1] = True
    shared = np.where(is_all, 0.0, pairs.shared)
    of_mention = shared / np.maximum(pairs.of_mention, 1e-6)
    dice = 2 * shared / np.maximum(pairs.of_name + pairs.of_mention, 1e-6)
    of_name = shared / np.maximum(pairs.of_name, 1e-6)
    of_all = pairs.shared[is_all] / np.maximum(pairs.of_mention[is_all], 1e-6)
    best = [pairs.most(similarity) for similarity in (of_mention, dice, of_name)]
    return [pairs.filled(values) for values in (*best, of_all)]


class _Compared(NamedTuple):
    """m comparisons of a mention with a name of a candidate, grouped by pairs of mention and candidate."""

    shared: np.ndarray  # float64 [m], the weight of the tokens that the mention and the name share
    of_name: np.ndarray  # float64 [m], the weight of the tokens of the name
    of_mention: np.ndarray  # float64 [m], the weight of the tokens of the mention
    starts: np.ndarray  # int64 [p], the first comparison of each distinct pair
    present: np.ndarray  # bool [n, k], whether there is a candidate
    pair_of: np.ndarray  # int64, the pair of each candidate that is present

    def most(self, values: np.ndarray) -> np.ndarray:
        """Return the largest value of each pair, [p]."""
        return np.maximum.reduceat(values, self.starts) if len(values) else values

    def filled(self, values: np.ndarray) -> np.ndarray:
        """Return the values of pairs [p] for all candidates, float64 [n, k]; 0 for no candidate."""
        of_all = np.zeros(self.present.shape)
        of_all[self.present] = values[self.pair_of]
        return of_all


def _compared(
    surfaces: Sequence[str],
    numbers: np.ndarray,
    entities: Mapping[int, Entity],
    counts: np.ndarray,
    name_tokens: Tokens,
    surface_tokens: Tokens,
    weights: np.ndarray,
) -> _Compared:
    """Compare mentions with all names of their candidates.

    Args:
        surfaces: See ``trigram_similarity``, also for the two arguments that follow.
        numbers: The candidates.
        entities: The entities.
        counts: The number of names of each entity, int64.
        name_tokens: The tokens of the names of all entities.
        surface_tokens: The tokens of the mentions.
        weights: The weight of each token, float64.
    """
    present = numbers >= 0
    # Mentions with the same words are compared once with each candidate.
    firsts = {surface: line for line, surface in reversed(list(enumerate(surfaces)))}
    lines = np.array([firsts[surface] for surface in surfaces], dtype=np.int64)
    lines = np.repeat(lines, numbers.shape[1])[present.ravel()]
    places = np.searchsorted(np.array(list(entities), dtype=np.int64), numbers[present])
    pairs, pair_of = np.unique(lines * len(counts) + places, return_inverse=True)
    lines, places = np.divmod(pairs, max(len(counts), 1))
    names = _ranges((counts.cumsum() - counts)[places], counts[places])
    lines = np.repeat(lines, counts[places])
    (codes, bounds), (surface_codes, surface_bounds) = name_tokens, surface_tokens
    # Few tokens of names are tokens of mentions; all others share the last column.
    distinct, columns = np.unique(surface_codes, return_inverse=True)
    has_token = np.zeros((len(surfaces), len(distinct) + 1), dtype=bool)
    has_token[np.repeat(np.arange(len(surfaces)), np.diff(surface_bounds)), columns] = True
    column_of = np.full(len(weights), -1)
    column_of[distinct] = np.arange(len(distinct))
    lengths = np.diff(bounds)[names]
    tokens = codes[_ranges(bounds[names], lengths)]
    comparisons = np.repeat(np.arange(len(names)), lengths)
    shared = has_token[lines[comparisons], column_of[tokens]]
    return _Compared(
        np.bincount(comparisons[shared], weights[tokens[shared]], len(names)),
        _sums(weights[codes], bounds)[names],
        _sums(weights[surface_codes], surface_bounds)[lines],
        counts[places].cumsum() - counts[places],
        present,
        pair_of,
    )


def _sums(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the sums of the values between bounds. A sum has the same bits whatever its neighbours."""
    n = len(bounds) - 1
    return np.bincount(np.repeat(np.arange(n), np.diff(bounds)), values, n)


def _trigrams(texts: Sequence[str]) -> Tokens:
    """Return the hashes of the trigrams of texts.

    The trigrams are of bytes, in lower case, with blanks for punctuation, two edges before and one after.
    """
    joined = plain("".join(f"{_EDGE}{_EDGE}{text}{_EDGE}{_END}" for text in texts))
    lower = joined.encode("utf8", "replace").lower().translate(_BLANKS)
    letters = np.frombuffer(lower, np.uint8)
    blank = letters == ord(" ")
    letters = letters[~(blank & np.roll(blank, 1))].astype(np.uint32)
    ends = letters == ord(_END)
    inside = ~(ends[:-2] | ends[1:-1] | ends[2:])
    hashes = (letters[:-2] * 961 + letters[1:-1] * 31 + letters[2:]) % _N_TRIGRAMS
    counts = np.diff(np.flatnonzero(ends), prepend=-1) - 3
    return hashes[inside], np.concatenate([[0], counts.cumsum()])


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return ranges of numbers, one after the other, from their starts and lengths."""
    return np.repeat(starts - lengths.cumsum() + lengths, lengths) + np.arange(lengths.sum())
