"""Texts and names as pieces of their plain forms, which are compared by their hashes."""

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import accumulate

import numpy as np

from .records.plain_text import PlainText

# Texts and names are compared piece by piece: a word, or one other character but white space.
_PIECE = re.compile(r"(\w+|[^\w\s])")
BREAK = ""  # a piece behind each text, which no name has
_ACRONYM = 5  # the largest number of letters of an acronym


class Pieces:
    """The n pieces of texts, one text after the other: ``words``; the last of each text is ``BREAK``.

    ``words`` are of plain texts (``PlainText``). ``texts`` is the place of the text of each, and ``starts``
    and ``ends`` are its characters in that as it is given: int64 [n]. The first piece of each text is
    ``first``, int64 [len(texts) + 1].
    """

    def __init__(self, texts: Sequence[str]) -> None:
        parts: list[str] = []  # white space or nothing, a piece, white space or nothing, and so on
        n_parts = [0]
        plain_texts = list(map(PlainText, texts))
        for text in plain_texts:
            parts += _PIECE.split(text.text)
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
        for place in [place for place, text in enumerate(texts) if not text.isascii()]:
            own = slice(self.first[place], self.first[place + 1])
            spans = self.starts[own], self.ends[own]
            self.starts[own], self.ends[own] = plain_texts[place].given(*spans)

    def between(self, text: int, start: int, end: int) -> tuple[int, int]:
        """The first and the last piece that lie between two characters of a text, by its place."""
        own = slice(self.first[text], self.first[text + 1] - 1)
        first = np.searchsorted(self.ends[own], start, side="right")
        last = np.searchsorted(self.starts[own], end, side="left") - 1
        return int(own.start + first), int(own.start + last)

    def hashes(self, hashed: Callable[[str], int]) -> np.ndarray:
        """The hash of each piece: uint64 [n]."""
        return np.fromiter(map(hashed, self.words), np.uint64, len(self.words))


def hash_of(text: str, kind: bytes) -> int:
    """A random number for a text: 64 bits."""
    digest = blake2b(text.encode("utf8", "surrogatepass"), digest_size=8, person=kind).digest()
    return int.from_bytes(digest, "little")


def is_short_acronym(name: str) -> bool:
    """Whether a name is one word of at most five letters, all of them capitals."""
    n_letters = sum(map(str.isalpha, name))
    return 2 <= len(name) and n_letters <= _ACRONYM and name.isupper() and len(name.split()) == 1
