"""The similarity of mentions and the names of their candidates, by trigrams of letters and by words.

The computations use arrays, because a mention is compared with some hundred names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from string import punctuation
from typing import NamedTuple

import numpy as np
from Stemmer import Stemmer

from ..kb.knowledge_base import KnowledgeBase
from ..kb.pieces import hash_of
from ..kb.records.entity import Entity
from ..kb.records.names import american
from ..kb.records.plain_text import plain

_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset("a an at by for from in of on the to with".split())
# Latin plurals, which the stemmer does not know: nevi, fistulae, metastases, stenoses.
_SINGULAR = {"i": "us", "ae": "a", "stases": "stasis", "oses": "osis"}
_PLURAL = re.compile(rf"(?<=[a-z]{{3}})({'|'.join(_SINGULAR)})$")
_CACHE_SIZE = 50_000  # stems
_N_TRIGRAMS = 4093  # the number of different hashes of trigrams
_EDGE, _END = "\1", "\n"  # no name has them
_MARKS = punctuation.encode()
_BLANKS = bytes.maketrans(_MARKS, b" " * len(_MARKS))


class _Tokens(NamedTuple):
    """The tokens of n texts, one text after the other."""

    codes: np.ndarray  # integers [t]
    weights: np.ndarray  # float64 [t]
    lengths: np.ndarray  # the number of tokens of each text, int64 [n]


def trigram_similarity(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, entities: Mapping[int, Entity]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compare each mention with the names of its candidates by Dice's coefficient of trigrams.

    Args:
        kb: The KB of the candidates. It remembers the tokens of their names.
        surfaces: The n mentions, normalised, in American spelling.
        numbers: int64 [n, k], the numbers of their candidates; -1 for no candidate.
        entities: The candidates by their numbers, ascending.

    Returns:
        The similarity of the most similar name and of the first name, float64 [n, k], 0 to 1; and the
        place of the most similar name among the names of the candidate, int64 [n, k].
    """
    of_names = kb.remembered(
        "trigrams", list(entities), lambda own: [_trigrams(entities[n].names) for n in own]
    )
    pairs = _compared(surfaces, numbers, list(entities), of_names, _trigrams(surfaces))
    dice = np.minimum(2 * pairs.shared / (pairs.of_name + pairs.of_mention), 1.0)
    best = pairs.most(dice)
    is_best = np.flatnonzero(dice == np.repeat(best, np.diff(pairs.starts, append=len(dice))))
    first = is_best[np.searchsorted(is_best, pairs.starts)] - pairs.starts
    return pairs.filled(best), pairs.filled(dice[pairs.starts]), pairs.filled(first).astype(int)


def word_similarity(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, entities: Mapping[int, Entity]
) -> list[np.ndarray]:
    """Compare each mention with the names of its candidates by words. Rare words count more.

    The arguments are those of ``trigram_similarity``.

    Returns:
        Four arrays, float64 [n, k], 0 to 1: the maximum over names of the share of the mention that is in
        the name, of Dice's coefficient, and of the share of the name that is in the mention; and the share
        of the mention that is in all names together.
    """

    def of_entity(number: int) -> _Tokens:
        names = [_WORD.findall(plain(name)) for name in entities[number].names]
        # The last text has all names together.
        return _stems([*names, list(chain.from_iterable(names))], kb.rarity)

    of_names = kb.remembered("stems", list(entities), lambda own: list(map(of_entity, own)))
    of_surfaces = _stems([_WORD.findall(surface) for surface in surfaces], kb.rarity)
    pairs = _compared(surfaces, numbers, list(entities), of_names, of_surfaces)
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
    entities: Sequence[int],
    of_names: Sequence[_Tokens],
    of_surfaces: _Tokens,
) -> _Compared:
    """Compare mentions with all names of their candidates.

    Args:
        surfaces: See ``trigram_similarity``, also for the next argument.
        numbers: The candidates.
        entities: The numbers of the distinct candidates, ascending.
        of_names: The tokens of the names of each of these entities.
        of_surfaces: The tokens of the mentions.
    """
    present = numbers >= 0
    # Mentions with the same words are compared once with each candidate.
    firsts = {surface: line for line, surface in reversed(list(enumerate(surfaces)))}
    lines = np.array([firsts[surface] for surface in surfaces], dtype=np.int64)
    lines = np.repeat(lines, numbers.shape[1])[present.ravel()]
    places = np.searchsorted(np.array(entities, dtype=np.int64), numbers[present])
    counts = np.array([len(own.lengths) for own in of_names], dtype=np.int64)
    pairs, pair_of = np.unique(lines * len(counts) + places, return_inverse=True)
    lines, places = np.divmod(pairs, max(len(counts), 1))
    names = _ranges((counts.cumsum() - counts)[places], counts[places])
    lines = np.repeat(lines, counts[places])
    codes, weights, all_lengths = (np.concatenate(c) for c in zip(*(of_names or [of_surfaces])))
    # Few tokens of names are tokens of mentions; all others share the last column.
    distinct, columns = np.unique(of_surfaces.codes, return_inverse=True)
    has_token = np.zeros((len(surfaces), len(distinct) + 1), dtype=bool)
    has_token[np.repeat(np.arange(len(surfaces)), of_surfaces.lengths), columns] = True
    column_of = distinct.searchsorted(codes)
    if len(distinct):
        column_of[distinct.take(column_of, mode="clip") != codes] = len(distinct)
    lengths = all_lengths[names]
    tokens = _ranges((all_lengths.cumsum() - all_lengths)[names], lengths)
    comparisons = np.repeat(np.arange(len(names)), lengths)
    shared = has_token[lines[comparisons], column_of[tokens]]
    return _Compared(
        np.bincount(comparisons[shared], weights[tokens[shared]], len(names)),
        _sums(weights, all_lengths)[names],
        _sums(of_surfaces.weights, of_surfaces.lengths)[lines],
        counts[places].cumsum() - counts[places],
        present,
        pair_of,
    )


def _sums(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the sum of each run of values of these lengths. Its bits do not depend on the other runs."""
    return np.bincount(np.repeat(np.arange(len(lengths)), lengths), values, len(lengths))


def _stems(texts: Sequence[Sequence[str]], rarity: Callable[[str], float]) -> _Tokens:
    """Return the hashes of the stems of the words of texts, each once in a text, with their rarity."""
    by_text = [sorted(set(map(_stem, words)) - {("", 0)}) for words in texts]
    stems = list(chain.from_iterable(by_text))
    return _Tokens(
        np.array([code for _, code in stems], dtype=np.uint64),
        np.array([rarity(name) for name, _ in stems], dtype=np.float64),
        np.array(list(map(len, by_text)), dtype=np.int64),
    )


def _trigrams(texts: Sequence[str]) -> _Tokens:
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
    codes = hashes[inside].astype(np.uint16)
    counts = np.diff(np.flatnonzero(ends), prepend=-1) - 3
    return _Tokens(codes, np.broadcast_to(1.0, len(codes)), counts)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return ranges of numbers, one after the other, from their starts and lengths."""
    return np.repeat(starts - lengths.cumsum() + lengths, lengths) + np.arange(lengths.sum())


@lru_cache(_CACHE_SIZE)
def _stem(piece: str) -> tuple[str, int]:
    """Return the stem of a word, and its hash; "" and 0 for a stop word or punctuation."""
    word = _PLURAL.sub(lambda match: _SINGULAR[match[0]], american(piece.casefold()))
    if word in _STOP_WORDS or not any(map(str.isalnum, word)):
        return "", 0
    stem = str(Stemmer("english").stemWord(word))
    return stem, hash_of(stem, b"stem")
