"""Texts as arrays of pieces, each with a hash: a piece is a word, or one other character.

All of it is numpy, a million characters at a time. White space only separates pieces. A word keeps
its case if two of its letters are capitals ("ALL", "mRNA"), and is lower-cased if not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

# Stands between texts. It is a piece, and no name has it.
BREAK = "\0"
_SPACE, _WORD, _OTHER = 0, 1, 2
_N_CODES = 0x110000
# An odd number has an inverse modulo 2^64.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))
_START = np.uint64(0xD6E8FEB86659FD93)


class Pieces:
    """The pieces of texts, one text after the other.

    The hash of a run of pieces is the sum of h(c_i) * B^i over its characters c_i that are not white
    space, modulo 2^64, where h tells whether a character begins a piece. It is a difference of two
    prefix sums, whatever the length of the run. Two runs of different characters have one hash with
    a chance of about 2^-64.

    Attributes:
        text: The texts, joined by BREAK.
        starts: int64 [n], the first character of each piece.
        ends: int64 [n], the character after its last.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.text = BREAK.join(texts)
        codes = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), np.uint32)
        kinds = _kinds()[codes]
        is_word = kinds == _WORD
        is_start = (kinds == _OTHER) | _after_a_change(is_word)
        is_end = (kinds == _OTHER) | _after_a_change(is_word[::-1])[::-1]
        self.starts = np.flatnonzero(is_start)
        self.ends = np.flatnonzero(is_end) + 1
        values = _values()[self._folded(codes)]
        values[self.starts] += _START
        is_solid = kinds != _SPACE
        solid = values[is_solid]
        # Sums before each character, in the order of the solid ones.
        self._sums = np.zeros(len(solid) + 1, np.uint64)
        np.cumsum(solid * _powers(_BASE, len(solid)), out=self._sums[1:])
        self._inverses = _powers(_INVERSE, len(solid) + 1)
        before = np.concatenate(([0], np.cumsum(is_solid)))
        self._first, self._after = before[self.starts], before[self.ends]

    def __len__(self) -> int:
        return len(self.starts)

    def hashes(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The hashes of runs of pieces, from the first to the last, each int64 [m]; uint64 [m]."""
        begin = self._first[first]
        sums = self._sums[self._after[last]] - self._sums[begin]
        return mixed(sums * self._inverses[begin])

    def _folded(self, codes: np.ndarray) -> np.ndarray:
        """The characters, those of words with fewer than two capitals in lower case."""
        if not len(self.starts):
            return codes
        capitals = np.add.reduceat(_is_upper()[codes], self.starts)
        lengths = np.diff(np.concatenate((self.starts, [len(codes)])))
        keeps = np.repeat(capitals >= 2, lengths)
        folded = _lower()[codes]
        folded[self.starts[0] :][keeps] = codes[self.starts[0] :][keeps]
        return folded


def _after_a_change(is_word: np.ndarray) -> np.ndarray:
    """Where a word begins: a character of a word that follows one that is none."""
    return is_word & ~np.concatenate(([False], is_word[:-1]))


def _powers(base: np.uint64, n: int) -> np.ndarray:
    """base^0 to base^(n-1) modulo 2^64."""
    powers = np.full(n, base, np.uint64)
    powers[:1] = 1
    return np.cumprod(powers)


def mixed(values: np.ndarray) -> np.ndarray:
    """The numbers, uint64, spread over all bits (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@cache
def _values() -> np.ndarray:
    """A random number for each character: uint64."""
    return mixed(np.arange(1, _N_CODES + 1, dtype=np.uint64) * _BASE)


@cache
def _kinds() -> np.ndarray:
    """What each character is: uint8."""
    everything = "".join(map(chr, range(_N_CODES)))
    kinds = np.full(_N_CODES, _OTHER, np.uint8)
    for pattern, kind in ((r"\w+", _WORD), (r"\s+", _SPACE)):
        for run in re.finditer(pattern, everything):
            kinds[run.start() : run.end()] = kind
    return kinds


@cache
def _lower() -> np.ndarray:
    """Each character in lower case, where that is one character: uint32."""
    lower = np.arange(_N_CODES, dtype=np.uint32)
    for code in np.flatnonzero(_is_upper()).tolist():
        folded = chr(code).lower()
        lower[code] = ord(folded) if len(folded) == 1 else code
    return lower


@cache
def _is_upper() -> np.ndarray:
    """Which characters are capitals: int32, to be summed."""
    return np.array([chr(code).isupper() for code in range(_N_CODES)], dtype=np.int32)
