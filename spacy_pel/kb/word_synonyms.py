"""Words that mean the same in a knowledge base, by its own synonyms.

Many entities of the HPO are named "increased" and "elevated", or "neoplasm of" and "tumor of": these words
mean the same there. So "elevated hemoglobin" is found even if the KB has only "increased hemoglobin".
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise, permutations

import numpy as np

Words = tuple[int, ...]  # the hashes of words in one form
_MAX_WORDS = 2  # that mean the same as other words
_MIN_ENTITIES = 3  # whose names show that words mean the same
_MIN_RATIO = 4  # of these to the names that show that they do not
# A name of one word is found as another word if this share of the entities with this word show it: "tumor" is
# as clear as "neoplasm", but "disease" seldom means an atherosclerosis.
_MIN_SHARE = 0.3


def reworded(
    bounds: np.ndarray, hashes: np.ndarray, texts: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return further wordings of names, each with other words that mean the same at one place.

    Args:
        bounds, hashes, texts: The words of names, as ``name_words`` returns them; the result is alike.
        owners: The numbers of the entities of the names, int [n].
    """
    flat = hashes.tolist()
    wordings = [tuple(flat[start : stop - 1]) for start, stop in pairwise(bounds.tolist())]
    inside, whole = _synonyms(wordings, owners[texts].tolist())
    ends, words, names = [0], list[int](), list[int]()
    for wording, text in zip(wordings, texts.tolist()):
        others = {other for other, *_ in _replaced(wording, inside)}
        for other in sorted(others.union(whole.get(wording, ()))):
            words += *other, 0
            ends.append(len(words))
            names.append(text)
    return np.array(ends), np.array(words, np.uint64), np.array(names, np.int64)


def _synonyms(
    wordings: Sequence[Words], owners: Sequence[int]
) -> tuple[dict[Words, list[Words]], dict[Words, list[Words]]]:
    """Return the words that may stand for words inside names, and for whole names of one word.

    They do so for several entities, and seldom is a name with these words that of another entity.
    """
    names, entities = defaultdict(set), defaultdict(set)
    for words, owner in zip(wordings, owners):
        names[words].add(owner)
        entities[owner].add(words)
    support = Counter(
        pair for own in entities.values() for pair in set(map(_differing, permutations(own, 2)))
    )
    known = defaultdict[Words, list[Words]](list)
    for (words, others), count in sorted(support.items()):
        if count >= _MIN_ENTITIES and words and others:
            if max(len(words), len(others)) <= _MAX_WORDS:
                known[words].append(others)
    conflicts = Counter[tuple[Words, Words]]()
    for name, own in names.items():
        for other, *pair in _replaced(name, known):
            conflicts[tuple(pair)] += other in names and names[other].isdisjoint(own)
    n_entities = Counter(
        (word,) for own in entities.values() for word in set(chain.from_iterable(own))
    )
    inside, whole = dict[Words, list[Words]](), dict[Words, list[Words]]()
    for words, all in known.items():
        counts = {others: support[words, others] for others in all}
        inside[words] = [o for o in all if counts[o] >= _MIN_RATIO * conflicts[words, o]]
        if len(words) == 1:
            whole[words] = [
                o for o in inside[words] if len(o) == 1 and counts[o] >= _MIN_SHARE * n_entities[o]
            ]
    return inside, whole


def _replaced(
    name: Words, synonyms: Mapping[Words, Iterable[Words]]
) -> Iterator[tuple[Words, Words, Words]]:
    """Yield rewordings of several words, the words that are replaced, and those that replace them."""
    for length in range(1, _MAX_WORDS + 1):
        for start in range(len(name) - length + 1):
            words = name[start : start + length]
            for others in synonyms.get(words, ()):
                if len(name) > length and len(name) - length + len(others) > 1:
                    yield name[:start] + others + name[start + length :], words, others


def _differing(pair: tuple[Words, Words]) -> tuple[Words, Words]:
    """Return the words of each of two names between the first and the last words that they share."""
    a, b = pair
    shorter = min(len(a), len(b))
    start = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    left = shorter - start
    stop = next((i for i in range(left) if a[-1 - i] != b[-1 - i]), left)
    return a[start : len(a) - stop], b[start : len(b) - stop]
