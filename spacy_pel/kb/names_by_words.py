"""Names of a knowledge base by their words alone: in any order and form."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

import numpy as np
from scipy.sparse import coo_array
from Stemmer import Stemmer

from .pieces import Pieces, hash_of, is_short_acronym, owned_names, record_of
from .records.entity import Entity
from .records.names import american

_EMPTY = frozenset("a an and at by for from in of on the to with".split())  # words that say nothing
_INSIDE = frozenset("-\u2010\u2011/'\u2019")  # a phrase goes on behind these
_LONGEST = 12  # the most pieces of a phrase
_ENTITIES_AT_ONCE = 10_000
_REMEMBERED = 200_000  # stems that are kept
# Two words mean the same if names of so many entities differ in these alone, and this share of the
# entities that have the rarer word in their names.
_LEAST, _SHARE = 3, 0.1
_NEIGHBOURS = 3  # words of an entity that may stand in one place; with more some pairs are not seen


class NamesByWords:
    """Names of two and more words that are found by these alone.

    Words are compared by their stems. What stands between them may be "of", "the" and the like, and
    hyphens. Words count as the same if the KB uses them so: where names of an entity differ in one word
    alone, as "renal agenesis" and "kidney agenesis" do, and this is seen often enough. So "abnormal ribs" is
    found for "Abnormality of the ribs", and "kidney malformation" for "Renal malformation".

    Args:
        table: What ``word_table`` makes. Its columns are the attributes.
    """

    def __init__(self, table: np.ndarray) -> None:
        columns = {name: np.asarray(table[name][0]) for name in table.dtype.names}
        self.sums, self.bounds, self.owners = (columns[n] for n in ("sums", "bounds", "owners"))
        self.lengths = columns["lengths"]
        self._words, self._meant = columns["words"], columns["meant"]

    def place_of(self, name: str) -> int | None:
        """The place of the name that has these words, two or more; None if there is none."""
        stems = self._stems(Pieces([name]))
        place = int(self.sums.searchsorted(stems.sum()))
        is_name = place < len(self.sums) and self.sums[place] == stems.sum()
        return place if is_name and (stems != 0).sum() > 1 else None

    def _stems(self, pieces: Pieces) -> np.ndarray:
        return _meant(pieces.hashes(_stem), self._words, self._meant)

    def add_longer(
        self,
        pieces: Pieces,
        names: np.ndarray,
        lengths: np.ndarray,
        wanted: np.ndarray,
        first_own: int,
    ) -> None:
        """Put names, int64 [n], and their lengths in pieces where they are longer than those given.

        ``wanted`` says which names are found. Those of this table have the numbers from ``first_own`` on.
        """
        stems = self._stems(pieces)
        is_word = stems != 0
        sums = np.concatenate([np.zeros(1, np.uint64), stems.cumsum()])
        n_words = np.concatenate([[0], is_word.cumsum()])
        phrases = np.cumsum([not (p[:1].isalnum() or p in _INSIDE) for p in pieces.words])
        for length in range(2, min(_LONGEST, len(stems) if len(self.sums) else 0) + 1):
            first = np.flatnonzero(is_word[: len(stems) - length + 1] & is_word[length - 1 :])
            last = first + length - 1
            fits = (phrases[first] == phrases[last]) & (n_words[last + 1] - n_words[first] > 1)
            first, last = first[fits], last[fits]
            asked = sums[last + 1] - sums[first]
            places = np.minimum(self.sums.searchsorted(asked), len(self.sums) - 1)
            found = (self.sums[places] == asked) & (length > lengths[first])
            found &= wanted[first_own + places]
            names[first[found]] = first_own + places[found]
            lengths[first[found]] = length


@lru_cache(_REMEMBERED)
def _stem(piece: str) -> int:
    """The hash of the stem of a word; 0 for a piece that says nothing."""
    word = american(piece.casefold())
    if word in _EMPTY or not any(map(str.isalnum, word)):
        return 0
    return hash_of(Stemmer("english").stemWord(word), b"stem")


def _meant(stems: np.ndarray, words: np.ndarray, meant: np.ndarray) -> np.ndarray:
    """The stems, uint64 [n], with one of those that mean the same for all of them."""
    if not len(words):
        return stems
    places = np.minimum(words.searchsorted(stems), len(words) - 1)
    return np.where(words[places] == stems, meant[places], stems)


def word_table(entities: Iterable[Entity], numbers: np.ndarray) -> np.ndarray:
    """The table of the names of entities by their words: an array of one record.

    "words", uint64, have others that mean the same, "meant". A name is the sum of its words, "sums",
    ascending. As in ``name_table``, "bounds" say whose "owners" are, and "lengths" are in characters. It
    takes 6 microseconds and half a kilobyte of memory a name (MeSH, 269,000 names).
    """
    stems, sizes, owners, lengths = [], [], [], []
    stream = zip(entities, numbers.tolist())
    while block := list(islice(stream, _ENTITIES_AT_ONCE)):
        named = [
            (name, number)
            for entity, number in block
            for name in entity.names
            if not is_short_acronym(name)
        ]
        pieces = Pieces([name for name, _ in named])
        of_block = pieces.hashes(_stem)
        stems.append(of_block[of_block != 0])
        sizes.append(np.bincount(pieces.texts[of_block != 0], minlength=len(named)))
        owners.append(np.array([number for _, number in named], dtype=np.int64))
        lengths.append(np.minimum([len(name) for name, _ in named], 255))
    none = np.zeros(0, np.int64)
    sizes, owners, lengths = (np.concatenate([none, *x]) for x in (sizes, owners, lengths))
    stems = np.concatenate([none.astype(np.uint64), *stems])
    several = sizes > 1
    stems = stems[several.repeat(sizes)]
    sizes, owners, lengths = (x[several] for x in (sizes, owners, lengths))
    words, meant = _same_words(stems, sizes, owners)
    sums = _sums(_meant(stems, words, meant), sizes)
    order = np.lexsort((owners, sums))
    sums, owners, lengths = sums[order], owners[order], lengths[order]
    first, owned, bounds = owned_names(sums, owners)
    return record_of(
        {
            "words": words,
            "meant": meant,
            "sums": sums[first],
            "bounds": bounds,
            "owners": owners[owned].astype(np.int32),
            "lengths": np.maximum.reduceat(lengths, first).astype(np.uint8) if len(first) else none,
        }
    )


def _sums(stems: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sum of the stems of each name: uint64 [n]. A name has at least one."""
    return np.add.reduceat(stems, sizes.cumsum() - sizes) if len(sizes) else stems


def _same_words(
    stems: np.ndarray, sizes: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Stems, ascending, that mean the same as others, and for each the one that stands for all of them.

    Args:
        stems: uint64 [sum of sizes], those of all names, one name after the other.
        sizes: int64 [n], how many stems each name has.
        owners: int64 [n], whose names they are.
    """
    from scipy.sparse.csgraph import connected_components  # here: it takes a while

    entities = owners.repeat(sizes).astype(np.uint64)
    others = _sums(stems, sizes).repeat(sizes) - stems  # the name without this word
    order = np.lexsort((stems, others, entities))
    rows = np.stack([entities, others, stems])[:, order]
    seen = []
    for step in range(1, _NEIGHBOURS + 1):
        one, other = rows[:, :-step], rows[:, step:]
        differ = (one[:2] == other[:2]).all(axis=0) & (one[2] != other[2])
        seen.append(np.stack([one[0], one[2], other[2]])[:, differ])
    pairs = np.unique(np.concatenate(seen, axis=1), axis=1)[1:]  # once for each entity
    pairs, counts = np.unique(pairs, axis=1, return_counts=True)
    words, n_entities = np.unique(
        np.unique(np.stack([entities, stems]), axis=1)[1], return_counts=True
    )
    rarer = n_entities[np.searchsorted(words, pairs)].min(axis=0)
    pairs = pairs[:, (counts >= _LEAST) & (counts >= _SHARE * rarer)]
    words, places = np.unique(pairs, return_inverse=True)
    one, other = places.reshape(2, -1)
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(len(words), len(words)))
    _, groups = connected_components(graph, directed=False)
    return words, words[np.unique(groups, return_index=True)[1]][groups]
