"""Split the plain forms of texts and names into pieces, which are compared by their hashes."""

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import accumulate

import numpy as np

from .records.plain_text import PlainText

# A piece is a word or one other character that is not white space.
_PIECE = re.compile(r"(\w+|[^\w\s])")
_BLANK_LINES = re.compile(r"\n\s*\n")
BREAK = ""  # the piece after each text; no name contains it
MAX_LETTERS = 5  # of a name that is case-sensitive


class Pieces:
    """The n pieces of texts, text by text. The last piece of each text is ``BREAK``.

    Attributes:
        words: The pieces of the plain texts (``PlainText``).
        texts: The index of the text of each piece: int64 [n].
        starts, ends: The characters of each piece in its original text: int64 [n].
        paragraphs: The number of the paragraph of each piece in its text: int64 [n].
        first: The first piece of each text: int64 [len(texts) + 1].
    """

    def __init__(self, texts: Sequence[str]) -> None:
        parts: list[str] = []  # alternately what precedes a piece (white space or "") and the piece
        n_parts = [0]
        plain_texts = list(map(PlainText, texts))
        for plain_text in plain_texts:
            parts += _PIECE.split(plain_text.text)
            parts.append(BREAK)
            n_parts.append(len(parts))
        self.words = parts[1::2]
        self.first = np.array(n_parts) // 2
        counts = np.diff(self.first)
        self.texts = np.repeat(np.arange(len(texts)), counts)
        offsets = list(accumulate((len(text.text) for text in plain_texts), initial=0))
        bounds = np.fromiter(accumulate(map(len, parts)), np.int64, len(parts)).reshape(-1, 2)
        bounds -= np.repeat(np.array(offsets[:-1], dtype=np.int64), counts)[:, None]
        self.starts, self.ends = bounds.T
        self.paragraphs = np.zeros(len(self.words), dtype=np.int64)
        for index, text in enumerate(texts):
            if ends := paragraph_ends(plain_texts[index].text):
                rows = slice(self.first[index], self.first[index + 1])
                self.paragraphs[rows] = np.searchsorted(ends, self.starts[rows], side="right")
            if not text.isascii():
                rows = slice(self.first[index], self.first[index + 1])
                spans = plain_texts[index].given(self.starts[rows], self.ends[rows])
                self.starts[rows], self.ends[rows] = spans

    def between(self, text: int, start: int, end: int) -> tuple[int, int]:
        """Return the first and the last piece of a span of characters of the text with this index."""
        begin, stop = int(self.first[text]), int(self.first[text + 1]) - 1
        first = np.searchsorted(self.ends[begin:stop], start, side="right")
        last = np.searchsorted(self.starts[begin:stop], end, side="left") - 1
        return begin + int(first), begin + int(last)

    def hashes(self, hashed: Callable[[str], int]) -> np.ndarray:
        """Return the hash of each piece: uint64 [n]."""
        return np.fromiter(map(hashed, self.words), np.uint64, len(self.words))


def paragraph_ends(text: str) -> list[int]:
    """Return where the blank lines between the paragraphs of a text end."""
    return [match.end() for match in _BLANK_LINES.finditer(text)]


def runs(firsts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers of runs of successive numbers, run by run: int64 [sum of lengths]."""
    ends = lengths.cumsum()
    numbers: np.ndarray = np.arange(lengths.sum()) + np.repeat(firsts - ends + lengths, lengths)
    return numbers


def hash_of(text: str, kind: bytes) -> int:
    """Return a 64-bit hash of a text. Each ``kind`` has hashes of its own."""
    digest = blake2b(text.encode("utf8", "surrogatepass"), digest_size=8, person=kind).digest()
    return int.from_bytes(digest, "little")


def is_case_sensitive(name: str) -> bool:
    """Return whether a name is one word of at most five letters, all capitals: "AIDS" is no "aids"."""
    n_letters = sum(map(str.isalpha, name))
    is_short_word = len(name) >= 2 and n_letters <= MAX_LETTERS and len(name.split()) == 1
    return is_short_word and name.isupper()
