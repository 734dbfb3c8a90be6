"""Documents as words that are tagged: windows of word pieces, and what is known of each word.

A word is a piece as names of a knowledge base are compared by (``kb.name_finder.Pieces``). Its tag is
read at its first word piece.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer

from ..kb.pieces import Pieces
from .token_inputs import EncoderInputs, Window, WordPieces

# What a word looks like, from the most telling: the first that matches the whole word is its shape.
_SHAPES = [
    re.compile(shape)
    for shape in (
        r"[.!?] [,;:] [(\[{] [)\]}] - / [+*=<>%\u00b1] [^\w] \d{1,2} \d+ [A-Z] "
        r"[A-Z]{2,5} [A-Z]{6,} [A-Z][a-z]+ [a-z] [a-z]{2,4} [a-z]+ [A-Z]+s [A-Z]+\d+ "
        r"[a-z]*\d+[a-z]* [^\W\d]+ \w+"
    ).split()
]
N_SHAPES = len(_SHAPES)
# A window ends after a full stop, if one stands in this last part of it.
_ENDING = 0.5


def shape_of(word: str) -> int:
    """What a word looks like, as one of N_SHAPES numbers."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(word))


class WordReader:
    """Reads documents word by word, in windows of at most ``length`` tokens, special ones included."""

    def __init__(self, tokenizer: Tokenizer, length: int):
        self._pieces = WordPieces(tokenizer)
        self._room = length - 2

    def inputs(
        self, pieces: Pieces, features: np.ndarray
    ) -> tuple[list[np.ndarray], EncoderInputs]:
        """Cut documents into windows, where a sentence ends if one does. They do not overlap.

        ``features`` are what is known of each of the n pieces, bool [n, f]. Their shapes are added.

        Returns:
            The words of each document, int64 [w, 2]: the first character of each and the one after its
            last. And windows with an output for each word: "firsts" is on its first piece, "features" on
            all its pieces.
        """
        distinct = sorted(set(pieces.words) - {""})
        ids = {
            word: own[: self._room] or [self._pieces.unknown]  # a control character has no piece
            for word, own in zip(distinct, self._pieces.tokenize(distinct))
        }
        shapes = {word: shape_of(word) for word in distinct}
        words, windows, n_words = [], [], 0
        for first, after in pairwise(pieces.first.tolist()):
            own = slice(first, after - 1)  # without the piece behind the text
            words.append(np.stack([pieces.starts[own], pieces.ends[own]], axis=1))
            texts = pieces.words[own]
            shown = np.eye(N_SHAPES, dtype=bool)[[shapes[text] for text in texts]]
            known = np.concatenate([features[own], shown], axis=1)
            lengths = np.array([len(ids[text]) for text in texts], dtype=np.int64)
            for start, end in self._bounds(texts, lengths):
                tokens, counts = [ids[text] for text in texts[start:end]], lengths[start:end]
                framed = np.concatenate([[self._pieces.cls], *tokens, [self._pieces.sep]])
                firsts = np.zeros(len(framed), dtype=bool)
                firsts[counts.cumsum() - counts + 1] = True
                spread = np.zeros((len(framed), known.shape[1]), dtype=np.float32)
                spread[1:-1] = known[start:end].repeat(counts, axis=0)
                read = {"firsts": firsts, "features": spread}
                places = np.arange(n_words + start, n_words + end)
                windows.append(Window(framed.astype(np.int32), places, read))
            n_words += len(texts)
        return words, EncoderInputs(windows)

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
