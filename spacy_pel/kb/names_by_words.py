"""Match names by their words in any order and form.

Words are compared by their stems. Words such as "of" and "the", and hyphens, may stand between them.
Two words are synonyms if enough entities have names that differ in these words alone, as "renal agenesis"
and "kidney agenesis" do. So "abnormal ribs" matches "Abnormality of the ribs", and "kidney malformation"
matches "Renal malformation".
"""

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from Stemmer import Stemmer

from .pieces import Pieces, hash_of
from .records.names import american

_STOP_WORDS = frozenset("a an at by for from in of on the to with".split())
_INSIDE = frozenset("-/'")  # characters that a phrase may contain
# Latin plurals, which the stemmer does not know: nevi, fistulae, metastases, stenoses.
_SINGULAR = {"i": "us", "ae": "a", "stases": "stasis", "oses": "osis"}
_PLURAL = re.compile(rf"(?<=[a-z]{{3}})({'|'.join(_SINGULAR)})$")
# Prefixes with an optional hyphen: "pre-auricular" is "preauricular".
_PREFIXES = frozenset(
    "anti dys epi extra hyper hypo infra inter intra macro micro mid non oligo para peri poly post pre"
    " pseudo retro semi sub supra".split()
)
_MAX_PIECES = 12  # of a phrase
_CACHE_SIZE = 50_000  # stems
# Two words are synonyms if names of at least _MIN_ENTITIES entities differ in them alone, and at least
# _MIN_SHARE of the entities with the rarer word.
_MIN_ENTITIES, _MIN_SHARE = 3, 0.1
_BATCH_SIZE = 200_000  # names whose words are compared at a time
_NEIGHBOURS = 3  # alternatives to a word in the names of an entity that are compared


@lru_cache(_CACHE_SIZE)
def stemmed(piece: str) -> str:
    """Return the stem of a word; "" for a stop word or punctuation."""
    word = _PLURAL.sub(lambda match: _SINGULAR[match[0]], american(piece.casefold()))
    if word in _STOP_WORDS or not any(map(str.isalnum, word)):
        return ""
    return str(Stemmer("english").stemWord(word))


@lru_cache(_CACHE_SIZE)
def stem(piece: str) -> int:
    """Return the hash of the stem of a word; 0 for a stop word or punctuation."""
    return hash_of(word, b"stem") if (word := stemmed(piece)) else 0


def stems_in(pieces: Pieces) -> np.ndarray:
    """Return the stem of each piece, uint64 [n]. "pre-auricular" has one stem, at its first piece."""
    stems, words = pieces.hashes(stem), pieces.words
    for at, (word, link, rest) in enumerate(zip(words, words[1:], words[2:])):
        if link == "-" and rest.isalpha() and word.casefold() in _PREFIXES:
            stems[at], stems[at + 2] = stem(word + rest), 0
    return stems


def stems_of(name: str) -> list[int]:
    """Return the sorted stems of the words of a name."""
    return sorted(filter(None, stems_in(Pieces([name])).tolist()))


def phrases(pieces: Pieces, stems: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the runs of pieces that may be a name of several words, by length: first and last pieces.

    Runs begin and end with words, whose ``stems``, uint64 [n], are not 0. No run begins after a hyphen:
    "Charcot-Marie-Tooth disease" is no tooth disease.
    """
    is_word = stems != 0
    begins = is_word & ~np.array([False, *(p == "-" for p in pieces.words)][: len(stems)], bool)
    n_words = np.concatenate([[0], is_word.cumsum()])
    parts = np.cumsum([not (p[:1].isalnum() or p in _INSIDE) for p in pieces.words])
    runs = []
    for length in range(2, min(_MAX_PIECES, len(stems)) + 1):
        first = np.flatnonzero(begins[: len(stems) - length + 1] & is_word[length - 1 :])
        last = first + length - 1
        fits = (parts[first] == parts[last]) & (n_words[last + 1] - n_words[first] > 1)
        runs.append((first[fits], last[fits]))
    return runs


def with_synonyms(stems: np.ndarray, words: np.ndarray, meant: np.ndarray) -> np.ndarray:
    """Return stems, uint64 [n], with one representative for all synonyms."""
    if not len(words):
        return stems
    places = np.minimum(words.searchsorted(stems), len(words) - 1)
    return np.where(words[places] == stems, meant[places], stems)


def stem_sums(stems: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the sum of the stems of each name: uint64 [n]. A name has at least one stem."""
    return np.add.reduceat(stems, sizes.cumsum() - sizes) if len(sizes) else stems


def synonymous_words(
    stems: np.ndarray, sizes: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the stems that have synonyms, ascending, and the representative of each.

    ``stems``, uint64, are those of all names, name by name. ``sizes``, int64 [n], are their numbers for each
    name, and ``owners``, int64 [n], the entities of the names, ascending.
    """
    from scipy.sparse.csgraph import connected_components  # a slow import

    bounds = np.append(0, sizes.cumsum())
    ends = np.append(np.flatnonzero(np.diff(owners, prepend=-1)), len(owners))
    cuts = ends[np.searchsorted(ends, np.arange(0, len(owners), _BATCH_SIZE))]
    pair_blocks = [np.empty((2, 0), np.uint64)]
    blocks = list(pairwise(np.unique(np.append(cuts, len(owners)))))  # of whole entities
    for start, stop in blocks:
        words, n_words = stems[bounds[start] : bounds[stop]], sizes[start:stop]
        entities = owners[start:stop].repeat(n_words).astype(np.uint64)
        others = stem_sums(words, n_words).repeat(n_words) - words  # the name without this word
        order = np.lexsort((words, others, entities))
        rows = np.stack([entities, others, words])[:, order]
        neighbours = []
        for step in range(1, _NEIGHBOURS + 1):
            one, other = rows[:, :-step], rows[:, step:]
            differ = (one[:2] == other[:2]).all(axis=0) & (one[2] != other[2])
            neighbours.append(np.stack([one[0], one[2], other[2]])[:, differ])
        triples = np.unique(np.concatenate(neighbours, axis=1), axis=1)  # once for each entity
        pair_blocks.append(triples[1:])
    pairs, counts = np.unique(np.concatenate(pair_blocks, axis=1), axis=1, return_counts=True)
    pairs, counts = pairs[:, counts >= _MIN_ENTITIES], counts[counts >= _MIN_ENTITIES]
    words = np.unique(pairs)
    if not len(words):
        return words, words
    n_owners, keys = owners.max() + 1, []  # words * n_owners + entities that have them
    for start, stop in blocks:
        present = stems[bounds[start] : bounds[stop]]
        places = words.searchsorted(present).clip(max=len(words) - 1)
        entities = owners[start:stop].repeat(sizes[start:stop])
        keys.append(np.unique((places * n_owners + entities)[words[places] == present]))
    n_entities = np.bincount(np.concatenate(keys) // n_owners)
    rarer = n_entities[np.searchsorted(words, pairs)].min(axis=0)
    pairs = pairs[:, counts >= _MIN_SHARE * rarer]
    words, places = np.unique(pairs, return_inverse=True)
    one, other = places.reshape(2, -1)
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(len(words), len(words)))
    _, groups = connected_components(graph, directed=False)
    return words, words[np.unique(groups, return_index=True)[1]][groups]
