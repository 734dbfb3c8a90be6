"""Compare mentions with the names of their candidates, by trigrams of letters and by words.

The computations use arrays, because a mention has some hundred names to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, compress, islice, repeat
from string import punctuation
from typing import NamedTuple

import numpy as np
from Stemmer import Stemmer

from ..kb.knowledge_base import KnowledgeBase
from ..kb.pieces import runs
from ..kb.records.names import american
from ..kb.records.plain_text import plain

_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset("a an at by for from in of on the to with".split())
# Latin plurals, which the stemmer does not know: nevi, fistulae, metastases, stenoses.
_SINGULAR = {"i": "us", "ae": "a", "stases": "stasis", "oses": "osis"}
_PLURAL = re.compile(rf"(?<=[a-z]{{3}})({'|'.join(_SINGULAR)})$", re.MULTILINE)
_CACHE_SIZE = 50_000  # words
_N_TRIGRAMS = 4093  # the number of different hashes of trigrams
Names = Mapping[int, Sequence[str]]  # of entities, by their numbers
_EDGE, _END = "\1", "\n"  # no name has them
_MARKS = punctuation.encode()
_BLANKS = bytes.maketrans(_MARKS, b" " * len(_MARKS))


class _Tokens(NamedTuple):
    """The tokens of n texts, one text after the other."""

    codes: np.ndarray  # integers [t], 0 or more
    lengths: np.ndarray  # the number of tokens of each text, int64 [n]


def trigram_similarity(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, names: Names
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compare each mention with the names of its candidates by Dice's coefficient of trigrams.

    Args:
        kb: The KB of the candidates. It remembers the tokens of their names.
        surfaces: The n mentions, normalised, in American spelling.
        numbers: int64 [n, k], the numbers of their candidates; -1 for no candidate.
        names: The names of the candidates by their numbers, ascending.

    Returns:
        Three arrays [n, k]: the similarity of the candidate's most similar name, float64 from 0 to 1; the
        similarity of its first name, likewise; and the index of its most similar name, int64.
    """

    def of_entities(new: Sequence[int]) -> list[_Tokens]:
        entity_names = [names[number] for number in new]
        counts = np.cumsum([0, *map(len, entity_names)])
        codes, lengths = _trigrams(list(chain.from_iterable(entity_names)))
        places = np.append(0, lengths.cumsum())[counts]
        bounds = zip(*(edges[i:].tolist() for edges in (places, counts) for i in (0, 1)))
        return [_Tokens(codes[a:b], lengths[c:d]) for a, b, c, d in bounds]

    of_each = kb.remembered("trigrams", list(names), of_entities)
    counts = [len(tokens.lengths) for tokens in of_each]
    of_mentions = _trigrams(surfaces)
    of_names = _Tokens(*map(np.concatenate, zip(*of_each))) if of_each else _trigrams([])
    pairs = _compared(surfaces, numbers, list(names), counts, of_names, of_mentions)
    n_shared = np.bincount(pairs.comparisons, minlength=len(pairs.names))
    n_both = of_names.lengths[pairs.names] + of_mentions.lengths[pairs.lines]
    dice = np.minimum(2 * n_shared / n_both, 1.0)
    best = pairs.most(dice)
    is_best = np.flatnonzero(dice == np.repeat(best, np.diff(pairs.starts, append=len(dice))))
    first = is_best[np.searchsorted(is_best, pairs.starts)] - pairs.starts
    return pairs.filled(best), pairs.filled(dice[pairs.starts]), pairs.filled(first).astype(int)


def word_similarity(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, names: Names
) -> list[np.ndarray]:
    """Compare each mention with the names of its candidates by words. Rare words count more.

    The arguments are those of ``trigram_similarity``.

    Returns:
        Four arrays, float64 [n, k], from 0 to 1. The first three are maxima over the candidate's names: the
        share of the mention's words that the name has, Dice's coefficient, and the share of the name's words
        that the mention has. The fourth is the share of the mention's words that any of the names has.
    """

    def of_entities(new: Sequence[int]) -> list[tuple[tuple[str, ...], ...]]:
        entity_names = [names[number] for number in new]
        stems = iter(_stems(kb, list(chain.from_iterable(entity_names))))
        return [tuple(islice(stems, len(of_entity))) for of_entity in entity_names]

    of_each = kb.remembered("stems", list(names), of_entities)
    by_name, by_mention = list(chain.from_iterable(of_each)), _stems(kb, surfaces)
    names_words, words = (list(chain.from_iterable(stems)) for stems in (by_name, by_mention))
    distinct = sorted(set(words))
    columns = {stem: column for column, stem in enumerate(distinct)}
    of_names, of_mentions = (
        _Tokens(
            np.fromiter(map(columns.get, stems, repeat(len(columns))), np.int64, len(stems)),
            np.array(list(map(len, by_text)), np.int64),
        )
        for stems, by_text in ((names_words, by_name), (words, by_mention))
    )
    pairs = _compared(
        surfaces, numbers, list(names), list(map(len, of_each)), of_names, of_mentions
    )
    # The words of a name that shares none with a mention need no weight.
    shares = np.zeros(len(by_name), dtype=bool)
    shares[pairs.names[pairs.comparisons]] = True
    wanted, weights = np.repeat(shares, of_names.lengths), np.zeros(len(names_words))
    weights[wanted] = kb.rarities(list(compress(names_words, wanted.tolist())))
    column_weights = np.array(kb.rarities(distinct))
    mention_weights = _sums(column_weights[of_mentions.codes], of_mentions.lengths)[pairs.lines]
    name_weights = _sums(weights, of_names.lengths)[pairs.names]
    shared = np.bincount(pairs.comparisons, weights[pairs.tokens], len(pairs.names))
    similarities = (
        shared / np.maximum(mention_weights, 1e-6),
        2 * shared / np.maximum(name_weights + mention_weights, 1e-6),
        shared / np.maximum(name_weights, 1e-6),
    )
    # A word that several names of a candidate have counts once in the share of all names.
    pair_of = np.repeat(np.arange(len(pairs.starts)), np.diff(pairs.starts, append=len(shared)))
    keys = pair_of[pairs.comparisons] * max(1, len(distinct)) + of_names.codes[pairs.tokens]
    of_pairs, shared_columns = np.divmod(np.unique(keys), max(1, len(distinct)))
    in_any = np.bincount(of_pairs, column_weights[shared_columns], len(pairs.starts))
    of_all = in_any / np.maximum(mention_weights[pairs.starts], 1e-6)
    return [pairs.filled(values) for values in (*map(pairs.most, similarities), of_all)]


class _Compared(NamedTuple):
    """m comparisons of a mention with a name of a candidate, grouped by pairs of mention and candidate."""

    lines: np.ndarray  # int64 [m], the mentions
    names: np.ndarray  # int64 [m], the names
    comparisons: np.ndarray  # int64 [s], the comparison of each token that mention and name share
    tokens: np.ndarray  # int64 [s], the same tokens among those of all names
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
    counts: Sequence[int],
    of_names: _Tokens,
    of_mentions: _Tokens,
) -> _Compared:
    """Compare mentions with all names of their candidates.

    Args:
        surfaces: See ``trigram_similarity``, also for the next argument.
        numbers: The candidates.
        entities: The numbers of the distinct candidates, ascending.
        counts: The number of names of each of these entities.
        of_names: The tokens of the names of all these entities.
        of_mentions: The tokens of the mentions.
    """
    present = numbers >= 0
    # Mentions with the same words are compared once with each candidate.
    firsts = {surface: line for line, surface in reversed(list(enumerate(surfaces)))}
    lines = np.array([firsts[surface] for surface in surfaces], dtype=np.int64)
    lines = np.repeat(lines, numbers.shape[1])[present.ravel()]
    places = np.searchsorted(np.array(entities, dtype=np.int64), numbers[present])
    pairs, pair_of = np.unique(lines * len(counts) + places, return_inverse=True)
    lines, places = np.divmod(pairs, max(len(counts), 1))
    of_all = np.array(counts, dtype=np.int64)
    n_names, first_names = of_all[places], (of_all.cumsum() - of_all)[places]
    names, lines = runs(first_names, n_names), np.repeat(lines, n_names)
    n_codes = max(tokens.codes.max(initial=0) for tokens in (of_names, of_mentions)) + 1
    has_token = np.zeros((len(surfaces), n_codes), dtype=bool)
    has_token[np.repeat(np.arange(len(surfaces)), of_mentions.lengths), of_mentions.codes] = True
    lengths = of_names.lengths[names]
    tokens = runs((of_names.lengths.cumsum() - of_names.lengths)[names], lengths)
    comparisons = np.repeat(np.arange(len(names)), lengths)
    shared = has_token[lines[comparisons], of_names.codes[tokens]]
    starts = n_names.cumsum() - n_names
    return _Compared(lines, names, comparisons[shared], tokens[shared], starts, present, pair_of)


def _sums(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the sums of runs of values. The bits of a sum do not depend on the other runs."""
    return np.bincount(np.repeat(np.arange(len(lengths)), lengths), values, len(lengths))


def _stems(kb: KnowledgeBase, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the stems of the words of each text, each once, without stop words."""
    by_text = [_WORD.findall(plain(text)) for text in texts]
    words = list(dict.fromkeys(chain.from_iterable(by_text)))
    stem_of = dict(zip(words, kb.remembered("stem of", words, _stemmed, _CACHE_SIZE)))
    return [
        tuple(filter(None, dict.fromkeys(map(stem_of.__getitem__, words)))) for words in by_text
    ]


def _stemmed(words: Sequence[str]) -> list[str]:
    """Return the stems of words; "" for a stop word or punctuation."""
    lines = american("\n".join(words).casefold())  # together: one call instead of thousands
    singular = _PLURAL.sub(lambda match: _SINGULAR[match[0]], lines).split("\n")
    stems = Stemmer("english", 0).stemWords(singular)  # a stemmer is not for several threads
    is_word = [word not in _STOP_WORDS and bool(word.strip("_")) for word in singular]
    return [stem if keep else "" for stem, keep in zip(stems, is_word)]


def _trigrams(texts: Sequence[str]) -> _Tokens:
    """Return the hashes of the trigrams of texts.

    A trigram is three bytes of the text in lower case, with blanks for punctuation. Two edges precede each
    text, and one follows it.
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
    return _Tokens(codes, counts)
