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
        self._remembered: dict[str, list[int]] = {}  # of ``_ids_of``

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
        texts = [word for word in pieces.words if word]  # without the empty piece after each text
        is_word = np.ones(len(pieces.words), dtype=bool)
        is_word[pieces.first[1:] - 1] = False
        documents = pieces.first - np.arange(len(pieces.first))  # their bounds, in words
        distinct = list(dict.fromkeys(texts))
        number_of = {word: number for number, word in enumerate(distinct)}
        numbers = np.array([number_of[word] for word in texts], dtype=np.int64)
        ids = self._ids_of(distinct)
        read = [own[:1] for own in ids] if self._whole else ids  # tokens
        lengths = np.array(list(map(len, read)), dtype=np.int64)[numbers]
        bounds = [0]  # of the windows, in words
        for first, after in pairwise(documents.tolist()):
            bounds += [first + n for n in self._ends(texts[first:after], lengths[first:after])]
        # The tokens of all windows in a row: [CLS], words and [SEP] of each.
        edges = np.append(0, lengths.cumsum())[bounds] + 2 * np.arange(len(bounds))
        windows = np.arange(len(bounds) - 1).repeat(np.diff(bounds))  # of the words
        words = np.arange(len(texts)).repeat(lengths)  # of the tokens of words
        places = np.arange(len(words)) + 1 + 2 * windows[words]
        firsts = places[lengths.cumsum() - lengths]
        tokens = np.full(edges[-1], self._pieces.sep, dtype=np.int32)
        tokens[edges[:-1]] = self._pieces.cls
        tokens[places] = [id for number in numbers.tolist() for id in read[number]]
        n_given = features.shape[1]
        shapes = np.array(list(map(shape_of, distinct)), dtype=np.int64)[numbers]
        known = {
            "firsts": np.zeros(len(tokens), dtype=bool),
            "features": np.zeros((len(tokens), n_given + N_SHAPES), dtype=np.float32),
        }
        known["firsts"][firsts] = True
        known["features"][places, :n_given] = features[is_word][words]
        known["features"][places, n_given + shapes[words]] = 1
        if self._whole:
            others = np.full((len(distinct), _MAX_PIECES - 1), self._pieces.pad)
            for row, own in zip(others, ids):
                row[: len(own) - 1] = own[1:]
            known["others"] = np.full((len(tokens), _MAX_PIECES - 1), self._pieces.pad)
            known["others"][firsts] = others[numbers]
        outputs = np.arange(len(texts))
        of_windows = [
            Window(tokens[a:b], outputs[first:after], {name: known[name][a:b] for name in known})
            for (first, after), (a, b) in zip(pairwise(bounds), pairwise(edges.tolist()))
        ]
        offsets = np.stack([pieces.starts, pieces.ends], axis=1)[is_word]
        of_documents = [offsets[first:after] for first, after in pairwise(documents.tolist())]
        return of_documents, EncoderInputs(of_windows)

    def _ids_of(self, words: Sequence[str]) -> list[list[int]]:
        """Return the word pieces of each word, at least one. They are remembered."""
        if len(self._remembered) > _CACHE_SIZE:
            self._remembered = {}
        remembered = self._remembered  # another thread may begin a new one
        new = [word for word in words if word not in remembered]
        n_kept = _MAX_PIECES if self._whole else self._room
        for word, ids in zip(new, self._pieces.tokenize(new)):
            # A control character has no id.
            remembered[word] = ids[:n_kept] or [self._pieces.unknown]
        return [remembered[word] for word in words]

    def _ends(self, words: Sequence[str], lengths: np.ndarray) -> Iterator[int]:
        """Yield the word after the last one of each window of a document."""
        ends, first = lengths.cumsum(), 0
        while first < len(words):
            before = ends[first] - lengths[first]
            last = int(np.searchsorted(ends, before + self._room, side="right"))
            if last < len(words):
                stops = (i + 1 for i in range(last - 1, first, -1) if words[i] == ".")
                stop = next(stops, None)
                if stop and ends[stop - 1] - before > _ENDING * self._room:
                    last = stop
            yield last
            first = last
