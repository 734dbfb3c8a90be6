"""The inputs of the word tagger: windows of word pieces, with features of each word.

Words are the pieces of names of a knowledge base (``kb.pieces.Pieces``). Its tag is predicted
at its first word piece.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer

from ..kb.pieces import Pieces
from .token_inputs import EncoderInputs, Window, WordPieces

# The first pattern that matches the whole word is its shape.
_SHAPES = [
    re.compile(shape)
    for shape in (
        r"[.!?] [,;:] [(\[{] [)\]}] - / [+*=<>%\u00b1] [^\w] \d{1,2} \d+ [A-Z] "
        r"[A-Z]{2,5} [A-Z]{6,} [A-Z][a-z]+ [a-z] [a-z]{2,4} [a-z]+ [A-Z]+s [A-Z]+\d+ "
        r"[a-z]*\d+[a-z]* [^\W\d]+ \w+"
    ).split()
]
N_SHAPES = len(_SHAPES)
# A window ends after a full stop if there is one in this last part of it.
_ENDING = 0.5
_CACHE_SIZE = 50_000  # words
_MAX_PIECES = 8  # of a word that is one token


@lru_cache(_CACHE_SIZE)
def shape_of(word: str) -> int:
    """Return the number of a word's shape, below N_SHAPES."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(word))


class WordReader:
    """Reads the words of documents in windows of at most ``length`` tokens, with special tokens.

    Args:
        tokenizer: Splits words into word pieces.
        length: The maximum number of tokens of a window.
        whole: Read each word as one token, whatever the number of its word pieces.
    """

    def __init__(self, tokenizer: Tokenizer, length: int, whole: bool = False):
        self._pieces = WordPieces(tokenizer)
        self._room = length - 2
        self._whole = whole

    def inputs(
        self, pieces: Pieces, features: np.ndarray
    ) -> tuple[list[np.ndarray], EncoderInputs]:
        """Cut documents into windows that do not overlap, at the ends of sentences where possible.

        Args:
            pieces: The n words of the documents.
            features: Features of the words, bool [n, f]. Their shapes are added.

        Returns:
            The start and end of each word of each document, in characters, int64 [w, 2]; and windows
            with an output for each word: "firsts" marks its first word piece, "features" is repeated
            for all its word pieces. If words are read whole, "others" has the word pieces of a word after
            the first, int64 [t, p], and the padding token behind them.
        """
        distinct = sorted(set(pieces.words) - {""})
        ids = {
            word: word_ids[: self._room] or [self._pieces.unknown]  # a control character has no id
            for word, word_ids in zip(distinct, self._pieces.tokenize(distinct))
        }
        # The other pieces of the words that have several, if words are read whole.
        others = {}
        if self._whole:
            for word, own in ids.items():
                if len(own) > 1:
                    others[word] = own[1:_MAX_PIECES]
                    ids[word] = own[:1]
        shapes = {word: shape_of(word) for word in distinct}
        words, windows, n_words = [], [], 0
        for first, after in pairwise(pieces.first.tolist()):
            document = slice(first, after - 1)  # without the empty piece at the end of a text
            words.append(np.stack([pieces.starts[document], pieces.ends[document]], axis=1))
            texts = pieces.words[document]
            one_hot = np.eye(N_SHAPES, dtype=bool)[[shapes[text] for text in texts]]
            known = np.concatenate([features[document], one_hot], axis=1)
            lengths = np.array([len(ids[text]) for text in texts], dtype=np.int64)
            for start, end in self._bounds(texts, lengths):
                tokens, counts = [ids[text] for text in texts[start:end]], lengths[start:end]
                framed = np.concatenate([[self._pieces.cls], *tokens, [self._pieces.sep]])
                firsts = np.zeros(len(framed), dtype=bool)
                firsts[counts.cumsum() - counts + 1] = True
                spread = np.zeros((len(framed), known.shape[1]), dtype=np.float32)
                spread[1:-1] = known[start:end].repeat(counts, axis=0)
                outputs = np.arange(n_words + start, n_words + end)
                by_token = {"firsts": firsts, "features": spread}
                if self._whole:
                    rest = np.full((len(framed), _MAX_PIECES - 1), self._pieces.pad)
                    for place, text in enumerate(texts[start:end], 1):
                        if text in others:
                            rest[place, : len(others[text])] = others[text]
                    by_token["others"] = rest
                windows.append(Window(framed.astype(np.int32), outputs, by_token))
            n_words += len(texts)
        return words, EncoderInputs(windows)

    def _bounds(self, words: Sequence[str], lengths: np.ndarray) -> Iterator[tuple[int, int]]:
        """Yield the first word of each window and the one after its last."""
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
