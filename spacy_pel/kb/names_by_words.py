"""Words of names, where names are found by their words alone: in any order and form.

Words are compared by their stems. What stands between them may be "of", "the" and the like, and hyphens.
Words count as the same if the KB uses them so: where names of an entity differ in one word alone, as "renal
agenesis" and "kidney agenesis" do, and this is seen often enough. So "abnormal ribs" is found for
"Abnormality of the ribs", and "kidney malformation" for "Renal malformation".
"""

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from Stemmer import Stemmer

from .pieces import Pieces, hash_of
from .records.names import american

_EMPTY = frozenset("a an at by for from in of on the to with".split())  # words that say nothing
_INSIDE = frozenset("-/'")  # a phrase goes on behind these
# Plurals of Latin, which the stemmer does not know: nevi, fistulae, metastases, stenoses.
_SINGULAR = {"i": "us", "ae": "a", "stases": "stasis", "oses": "osis"}
_PLURAL = re.compile(rf"(?<=[a-z]{{3}})({'|'.join(_SINGULAR)})$")
# Written with a hyphen or without: "pre-auricular" is "preauricular".
_PREFIXES = frozenset(
    "anti dys epi extra hyper hypo infra inter intra macro micro mid non oligo para peri poly post pre"
    " pseudo retro semi sub supra".split()
)
_LONGEST = 12  # the most pieces of a phrase
_REMEMBERED = 50_000  # stems that are kept
# Two words mean the same if names of so many entities differ in these alone, and this share of the
# entities that have the rarer word in their names.
_LEAST, _SHARE = 3, 0.1
_AT_ONCE = 200_000  # names whose words are compared at a time
_NEIGHBOURS = 3  # words of an entity that may stand in one place; with more some pairs are not seen


@lru_cache(_REMEMBERED)
def stemmed(piece: str) -> str:
    """The stem of a word; "" for a piece that says nothing."""
    word = _PLURAL.sub(lambda found: _SINGULAR[found[0]], american(piece.casefold()))
    if word in _EMPTY or not any(map(str.isalnum, word)):
        return ""
    return Stemmer("english").stemWord(word)


@lru_cache(_REMEMBERED)
def stem(piece: str) -> int:
    """The hash of the stem of a word; 0 for a piece that says nothing."""
    return hash_of(word, b"stem") if (word := stemmed(piece)) else 0


def stems_in(pieces: Pieces) -> np.ndarray:
    """The stem of each piece, uint64 [n]; that of a word in two, as "pre-auricular", is at the first."""
    stems, words = pieces.hashes(stem), pieces.words
    for at, (word, link, rest) in enumerate(zip(words, words[1:], words[2:])):
        if link == "-" and rest.isalpha() and word.casefold() in _PREFIXES:
            stems[at], stems[at + 2] = stem(word + rest), 0
    return stems


def stems_of(name: str) -> list[int]:
    """The stems of the words of a name, in one order whatever theirs is."""
    return sorted(filter(None, stems_in(Pieces([name])).tolist()))


def phrases(pieces: Pieces, stems: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The runs of each number of pieces, from two on, that may be a name of several words.

    Their first and last pieces, int64 [n], which are words: ``stems``, uint64, are not 0. None begins behind
    a hyphen: "Charcot-Marie-Tooth disease" is no tooth disease.
    """
    is_word = stems != 0
    begins = is_word & ~np.array([False, *(p == "-" for p in pieces.words)][: len(stems)], bool)
    n_words = np.concatenate([[0], is_word.cumsum()])
    parts = np.cumsum([not (p[:1].isalnum() or p in _INSIDE) for p in pieces.words])
    found = []
    for length in range(2, min(_LONGEST, len(stems)) + 1):
        first = np.flatnonzero(begins[: len(stems) - length + 1] & is_word[length - 1 :])
        last = first + length - 1
        fits = (parts[first] == parts[last]) & (n_words[last + 1] - n_words[first] > 1)
        found.append((first[fits], last[fits]))
    return found


def with_meaning(stems: np.ndarray, words: np.ndarray, meant: np.ndarray) -> np.ndarray:
    """The stems, uint64 [n], with one of those that mean the same for all of them."""
    if not len(words):
        return stems
    places = np.minimum(words.searchsorted(stems), len(words) - 1)
    return np.where(words[places] == stems, meant[places], stems)


def sums_of(stems: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sum of the stems of each name: uint64 [n]. A name has at least one."""
    return np.add.reduceat(stems, sizes.cumsum() - sizes) if len(sizes) else stems


def same_words(
    stems: np.ndarray, sizes: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Stems, ascending, that mean the same as others, and for each the one that stands for all of them.

    ``stems``, uint64, are those of all names, one name after the other; ``sizes``, int64 [n], says how many
    each name has, and ``owners``, int64 [n], whose it is.
    """
    from scipy.sparse.csgraph import connected_components  # here: it takes a while

    bounds = np.append(0, sizes.cumsum())
    ends = np.append(np.flatnonzero(np.diff(owners, prepend=-1)), len(owners))
    cuts = ends[np.searchsorted(ends, np.arange(0, len(owners), _AT_ONCE))]
    found = [np.empty((2, 0), np.uint64)]
    blocks = list(pairwise(np.unique(np.append(cuts, len(owners)))))  # of whole entities
    for start, stop in blocks:
        own, n_own = stems[bounds[start] : bounds[stop]], sizes[start:stop]
        entities = owners[start:stop].repeat(n_own).astype(np.uint64)
        others = sums_of(own, n_own).repeat(n_own) - own  # the name without this word
        order = np.lexsort((own, others, entities))
        rows = np.stack([entities, others, own])[:, order]
        seen = []
        for step in range(1, _NEIGHBOURS + 1):
            one, other = rows[:, :-step], rows[:, step:]
            differ = (one[:2] == other[:2]).all(axis=0) & (one[2] != other[2])
            seen.append(np.stack([one[0], one[2], other[2]])[:, differ])
        found.append(np.unique(np.concatenate(seen, axis=1), axis=1)[1:])  # once for each entity
    pairs, counts = np.unique(np.concatenate(found, axis=1), axis=1, return_counts=True)
    pairs, counts = pairs[:, counts >= _LEAST], counts[counts >= _LEAST]
    words = np.unique(pairs)
    if not len(words):
        return words, words
    n_owners, held = owners.max() + 1, []  # the words of entities, as words * n_owners + entities
    for start, stop in blocks:
        own = stems[bounds[start] : bounds[stop]]
        places = words.searchsorted(own).clip(max=len(words) - 1)
        entities = owners[start:stop].repeat(sizes[start:stop])
        held.append(np.unique((places * n_owners + entities)[words[places] == own]))
    n_entities = np.bincount(np.concatenate(held) // n_owners)
    rarer = n_entities[np.searchsorted(words, pairs)].min(axis=0)
    pairs = pairs[:, counts >= _SHARE * rarer]
    words, places = np.unique(pairs, return_inverse=True)
    one, other = places.reshape(2, -1)
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(len(words), len(words)))
    _, groups = connected_components(graph, directed=False)
    return words, words[np.unique(groups, return_index=True)[1]][groups]
