"""Documents as words that are tagged: windows of word pieces, and what is known of each word.

A word is a piece as names of a knowledge base are compared by (``kb.name_finder.Pieces``). Its tag is
read at its first word piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from ..kb.name_finder import Pieces
from .text_inputs import PaddedInputs, pad_ids
from .word_pieces import WordPieces

# What a word looks like, from the most telling: the first that matches the whole word is its shape.
_SHAPES = tuple(
    map(
        re.compile,
        (
            r"[.!?]",
            r"[,;:]",
            r"[(\[{]",
            r"[)\]}]",
            r"[-\u2010-\u2015]",
            r"/",
            r"[+*=<>%\u00b1]",
            r"[^\w]",
            r"\d{1,2}",
            r"\d+",
            r"[A-Z]",
            r"[A-Z]{2,5}",
            r"[A-Z]{6,}",
            r"[A-Z][a-z]+",
            r"[a-z]",
            r"[a-z]{2,4}",
            r"[a-z]+",
            r"[A-Z]+s",
            r"[A-Z]+\d+",
            r"[a-z]*\d+[a-z]*",
            r"[^\W\d]+",
            r"\w+",
        ),
    )
)
N_SHAPES = len(_SHAPES)
# A window ends after a full stop, if one stands in this last part of it.
_ENDING = 0.5


class Window(NamedTuple):
    """A piece of a document that is read at once.

    Attributes:
        ids: int32 [t], the word pieces, special tokens included.
        firsts: bool [t], true at the first piece of each word.
        features: bool [t, f], what is known of the word of each piece; of special tokens nothing.
        words: slice of the words of all documents: which are read here.
    """

    ids: np.ndarray
    firsts: np.ndarray
    features: np.ndarray
    words: slice


class WordBatch(NamedTuple):
    """Padded windows.

    Attributes:
        ids: int64 [n, t], the token ids.
        mask: bool [n, t], true where there is a token.
        firsts: bool [n, t], true at the first piece of each word.
        features: float32 [n, t, f].
    """

    ids: np.ndarray
    mask: np.ndarray
    firsts: np.ndarray
    features: np.ndarray


class WordInputs(NamedTuple):
    """Windows with an output for each of their words (``EncoderInputs``)."""

    windows: Sequence[Window]

    @property
    def core_tokens(self) -> int:
        """One: a window has a pass of its own, so its tags do not depend on other documents."""
        return 1

    @property
    def n_outputs(self) -> int:
        return self.windows[-1].words.stop if self.windows else 0

    def lengths(self) -> np.ndarray:
        return np.array([len(window.ids) for window in self.windows], dtype=np.int64)

    def outputs_of(self, group: np.ndarray) -> np.ndarray:
        words = (self.windows[i].words for i in group)
        return np.concatenate([np.arange(w.start, w.stop) for w in words])

    def padded(self, group: np.ndarray, pad_id: int, least: int) -> PaddedInputs:
        windows = [self.windows[i] for i in group]
        ids, mask = pad_ids([window.ids for window in windows], pad_id, least)
        firsts = np.zeros_like(mask)
        firsts[mask] = np.concatenate([window.firsts for window in windows])
        features = np.zeros((*mask.shape, windows[0].features.shape[1]), dtype=np.float32)
        features[mask] = np.concatenate([window.features for window in windows])
        return PaddedInputs(WordBatch(ids, mask, firsts, features))


def words_of(pieces: Pieces) -> Iterator[np.ndarray]:
    """The words of each text: int64 [w, 2], the first character of each and the one after its last."""
    for first, after in pairwise(pieces.first.tolist()):
        own = slice(first, after - 1)  # without the piece behind the text
        yield np.stack([pieces.starts[own], pieces.ends[own]], axis=1)


def shape_of(word: str) -> int:
    """What a word looks like, as one of N_SHAPES numbers."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(word))


class WordReader:
    """Reads documents word by word.

    Args:
        tokenizer: The encoder's tokenizer (``WordPieces``).
        length: The most tokens of a window, special tokens included.
    """

    def __init__(self, tokenizer: Tokenizer, length: int):
        self._pieces = WordPieces(tokenizer)
        self._room = length - 2

    def inputs(self, pieces: Pieces, features: np.ndarray) -> WordInputs:
        """Cut documents into windows, where a sentence ends if one does. They do not overlap.

        Args:
            pieces: The words of the documents.
            features: What is known of each of the n pieces, bool [n, f]. Their shapes are added.
        """
        distinct = sorted(set(pieces.words) - {""})
        ids = dict(zip(distinct, map(self._ids, self._pieces.tokenize(distinct))))
        shapes = {word: shape_of(word) for word in distinct}
        windows, n_words = [], 0
        for first, after in pairwise(pieces.first.tolist()):
            words = pieces.words[first : after - 1]
            shown = np.eye(N_SHAPES, dtype=bool)[[shapes[word] for word in words]]
            known = np.concatenate([features[first : after - 1], shown], axis=1)
            lengths = np.array([len(ids[word]) for word in words], dtype=np.int64)
            for start, end in self._bounds(words, lengths):
                read = slice(n_words + start, n_words + end)
                tokens = [ids[word] for word in words[start:end]]
                windows.append(self._window(tokens, known[start:end], read))
            n_words += len(words)
        return WordInputs(windows)

    def _ids(self, ids: list[int]) -> list[int]:
        """The pieces of a word. A word without any (a control character) is read as unknown."""
        return ids[: self._room] or [self._pieces.unknown]

    def _bounds(self, words: Sequence[str], lengths: np.ndarray) -> Iterator[tuple[int, int]]:
        """The first word of each window and the one after its last."""
        ends, first = lengths.cumsum(), 0
        while first < len(words):
            before = ends[first] - lengths[first]
            last = int(np.searchsorted(ends, before + self._room, side="right"))
            if last < len(words):
                stops = (i + 1 for i in range(last - 1, first, -1) if words[i] == ".")
                stop = next(stops, None)
                if stop and ends[stop - 1] - before > _ENDING * self._room:
                    last = stop
            yield first, last
            first = last

    def _window(self, pieces: list[list[int]], features: np.ndarray, words: slice) -> Window:
        lengths = np.array([len(own) for own in pieces])
        ids = np.concatenate([[self._pieces.cls], *pieces, [self._pieces.sep]]).astype(np.int32)
        firsts = np.zeros(len(ids), dtype=bool)
        firsts[lengths.cumsum() - lengths + 1] = True
        spread = np.zeros((len(ids), features.shape[1]), dtype=bool)
        spread[1:-1] = features.repeat(lengths, axis=0)
        return Window(ids, firsts, spread, words)
