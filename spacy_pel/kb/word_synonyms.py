"""Words that mean the same in a knowledge base, by its own synonyms.

Many entities of the HPO are named "increased" and "elevated", or "neoplasm of" and "tumor of": these words
mean the same there. So "elevated hemoglobin" is found even if the KB has only "increased hemoglobin".
Likewise an adjective before a name may mean the same as a noun behind it: "absent speech" is "absence of
speech", and "hypoplastic thumb" is "thumb hypoplasia".
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, compress, pairwise, permutations

import numpy as np

from .word_forms import OF

Words = tuple[int, ...]  # the hashes of words in one form
_MAX_WORDS = 2  # the maximum number of words that are exchanged
_MIN_ENTITIES = 5  # the minimum number of entities whose names exchange the words
_MIN_RATIO = (
    4  # the minimum ratio of these to the names where the exchange gives another entity's name
)
# The minimum share of these among the entities with the other words. For names of one word, these are the
# entities named by that word and "of": most "tumors of" an organ are neoplasms, but few "diseases of" it are
# an atherosclerosis.
_MIN_SHARE = 0.3


def reworded(
    bounds: np.ndarray,
    hashes: np.ndarray,
    texts: np.ndarray,
    owners: np.ndarray,
    is_exact: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return further wordings of names, each with other words that mean the same at one place.

    Args:
        bounds, hashes, texts: The words of names, as ``name_words`` returns them; the result is alike.
        owners: The numbers of the entities of the names, int [n].
        is_exact: Which names mean their entity exactly, bool [n]. Only these show what means the same.
    """
    flat = hashes.tolist()
    wordings = [tuple(flat[start : stop - 1]) for start, stop in pairwise(bounds.tolist())]
    exact = list(zip(compress(wordings, is_exact[texts]), owners[texts[is_exact[texts]]].tolist()))
    inside, whole = _synonyms(exact)
    moved = _moved_words(exact)
    ends, words, names = [0], list[int](), list[int]()
    for wording, text in zip(wordings, texts.tolist()):
        others = {other for other, *_ in _replaced(wording, inside)}
        others.update(_with_moved_word(wording, *moved))
        for other in sorted(others.union(whole.get(wording, ()))):
            words += *other, 0
            ends.append(len(words))
            names.append(text)
    return np.array(ends), np.array(words, np.uint64), np.array(names, np.int64)


def _synonyms(
    owned: Iterable[tuple[Words, int]],
) -> tuple[dict[Words, list[Words]], dict[Words, list[Words]]]:
    """Return the words that may stand for words inside names, and for whole names of one word.

    Several entities have names that exchange these words, and the exchange seldom gives the name of another
    entity.
    """
    names, entities = defaultdict(set), defaultdict(set)
    for words, owner in owned:
        names[words].add(owner)
        entities[owner].add(words)
    support = Counter(
        pair for own in entities.values() for pair in set(map(_differing, permutations(own, 2)))
    )
    known = defaultdict[Words, list[Words]](list)
    for (words, others), count in sorted(support.items()):
        sizes = len(words), len(others)
        if count >= _MIN_ENTITIES and min(sizes) > 0 and max(sizes) <= _MAX_WORDS:
            known[words].append(others)
    conflicts = Counter[tuple[Words, Words]]()
    for name, own in names.items():
        for other, words, others in _replaced(name, known):
            conflicts[words, others] += other in names and names[other].isdisjoint(own)
    n_with = Counter(word for own in entities.values() for word in set(chain.from_iterable(own)))

    def is_clear(words: Words, others: Words) -> bool:
        n_others = _MIN_SHARE * max(n_with[word] for word in others)
        return support[words, others] >= max(n_others, _MIN_RATIO * conflicts[words, others])

    inside = {words: [o for o in all if is_clear(words, o)] for words, all in known.items()}
    heads = [{name for name in own if len(name) > 2 and name[1] == OF} for own in entities.values()]
    n_entities = Counter(head for own in heads for head in {name[:1] for name in own})
    same = Counter(
        pair
        for own in heads
        for pair in {(a[:1], b[:1]) for a, b in permutations(own, 2) if a[1:] == b[1:]}
    )
    whole = defaultdict[Words, list[Words]](list)
    for (word, other), count in sorted(same.items()):
        if count >= max(_MIN_ENTITIES, _MIN_SHARE * n_entities[other]):
            whole[word].append(other)
    return inside, whole


def _moved_words(
    owned: Iterable[tuple[Words, int]],
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return pairs of a first and a last word of names that mean the same, from each of the two.

    Several entities have both names, and the exchange seldom gives the name of another entity.
    """
    names, entities = defaultdict(set), defaultdict(set)
    for words, owner in owned:
        names[words].add(owner)
        entities[owner].add(words)
    support = Counter(
        pair
        for own in entities.values()
        for pair in {(a[0], b[-1]) for a, b in permutations(own, 2) if a[1:] == b[:-1] != ()}
    )
    known = sorted(pair for pair, count in support.items() if count >= _MIN_ENTITIES)
    lasts = defaultdict[int, list[int]](list)
    for first, last in known:
        lasts[first].append(last)
    conflicts = Counter(
        (name[0], last)
        for name, own in names.items()
        for last in lasts.get(name[0], ())
        if own.isdisjoint(names.get((*name[1:], last), own))
    )
    to_end, to_start = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for first, last in known:
        if support[first, last] >= _MIN_RATIO * conflicts[first, last]:
            to_end[first].append(last)
            to_start[last].append(first)
    return to_end, to_start


def _with_moved_word(
    name: Words, to_end: Mapping[int, list[int]], to_start: Mapping[int, list[int]]
) -> Iterator[Words]:
    """Yield a name of several words with its first word replaced by a last one, or the reverse."""
    if len(name) > 1 and OF not in name:
        for last in to_end.get(name[0], ()):
            yield *name[1:], last
        for first in to_start.get(name[-1], ()):
            yield first, *name[:-1]


def _replaced(
    name: Words, synonyms: Mapping[Words, Iterable[Words]]
) -> Iterator[tuple[Words, Words, Words]]:
    """Yield rewordings of several words, the words that are replaced, and those that replace them."""
    for length in range(1, _MAX_WORDS + 1):
        for start in range(len(name) - length + 1):
            words = name[start : start + length]
            for others in synonyms.get(words, ()):
                other = name[:start] + others + name[start + length :]
                if len(name) > length and len(other) > 1 and OF not in (other[0], other[-1]):
                    yield other, words, others


def _differing(pair: tuple[Words, Words]) -> tuple[Words, Words]:
    """Return the words of each of two names between the first and the last words that they share."""
    a, b = pair
    shorter = min(len(a), len(b))
    start = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    left = shorter - start
    stop = next((i for i in range(left) if a[-1 - i] != b[-1 - i]), left)
    return a[start : len(a) - stop], b[start : len(b) - stop]
