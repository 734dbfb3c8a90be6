"""Correct misspelled words by the words of names."""

from collections.abc import Sequence

from rapidfuzz import process
from rapidfuzz.distance import OSA

# Letters of the shortest word that is corrected, and of the shortest in which two letters may be wrong.
MIN_LETTERS, _TWO_ERRORS = 6, 8
# Beginnings that are close in letters and far in meaning: "macrocytosis" is no misspelled "microcytosis".
_BEGINNINGS = (
    "ante", "anti", "endo", "exo", "hyper", "hypo", "infra", "inter", "intra", "macro", "micro", "mono",
    "poly",
)  # fmt: skip
_MOST = 5  # similar words that are compared


def may_be_misspelled(word: str) -> bool:
    """Tell whether a word in lower case is long enough, and has no digits."""
    return len(word) >= MIN_LETTERS and word.isascii() and word.isalpha()


def corrected(word: str, known: Sequence[str]) -> str:
    """Return the known word that is most similar to a misspelled one; "" if none is similar enough.

    One letter may be missing, added, replaced, or swapped with its neighbour, and two in longer words
    (optimal string alignment). Of equally similar words, the first is returned.
    """
    most = 1 if len(word) < _TWO_ERRORS else 2
    similar = process.extract(
        word, known, scorer=OSA.distance, score_cutoff=most, limit=_MOST, processor=None
    )
    for match, _, _ in sorted(similar, key=lambda found: found[1:]):
        begins = [next(filter(each.startswith, _BEGINNINGS), "") for each in (word, match)]
        if begins[0] == begins[1] or not all(begins):
            return match
    return ""
