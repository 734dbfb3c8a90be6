"""Correct misspelled words by the words of names."""

import re
from collections.abc import Sequence

from rapidfuzz import process
from rapidfuzz.distance import OSA

# Letters of the shortest word that is corrected. Shorter words are too similar to others.
_MIN_LETTERS = 7
# Beginnings that differ in one letter, and far in meaning: "macrocytosis" is no misspelled "microcytosis".
_BEGINNINGS = ("ante", "anti", "macro", "micro")


_INNER_HYPHEN = re.compile(r"(?<=[a-z])-(?=[a-z])", re.IGNORECASE)
_POSSESSIVE = re.compile(r"(?<=[a-z]{3})s(?= [a-z])", re.IGNORECASE)


def other_spellings(name: str) -> list[str]:
    """Return a name without its hyphens, and with apostrophes: "pericarditis", "crohn's disease"."""
    spellings = _INNER_HYPHEN.sub("", name), _POSSESSIVE.sub(r"'\g<0>", name)
    return [spelling for spelling in spellings if spelling != name]


def may_be_misspelled(word: str) -> bool:
    """Tell whether a word in lower case is long enough, and has no digits."""
    return len(word) >= _MIN_LETTERS and word.isascii() and word.isalpha()


def corrected(word: str, known: Sequence[str]) -> str:
    """Return the first known word of which another is a misspelling; "" if there is none.

    One letter is missing, added, replaced, or swapped with its neighbour (optimal string alignment). With two
    such errors, half of the corrections in abstracts are wrong.
    """
    similar = process.extract_iter(word, known, scorer=OSA.distance, score_cutoff=1)
    for match, _, _ in similar:
        begins = [next(filter(each.startswith, _BEGINNINGS), "") for each in (word, match)]
        if begins[0] == begins[1]:
            return match
    return ""
