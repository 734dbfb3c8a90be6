"""Documents as words that are tagged: windows of word pieces, and what is known of each word.

A word is a piece as names of a knowledge base are compared by (``kb.name_finder.Pieces``). Its tag is
read at its first word piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from tokenizers import Tokenizer

from ..kb.pieces import Pieces
from .text_inputs import Window, WindowInputs
from .word_pieces import WordPieces

# What a word looks like, from the most telling: the first that matches the whole word is its shape.
_SHAPES = [
    re.compile(shape)
    for shape in (
        r"[.!?] [,;:] [(\[{] [)\]}] [-\u2010-\u2015] / [+*=<>%\u00b1] [^\w] \d{1,2} \d+ [A-Z] "
        r"[A-Z]{2,5} [A-Z]{6,} [A-Z][a-z]+ [a-z] [a-z]{2,4} [a-z]+ [A-Z]+s [A-Z]+\d+ "
        r"[a-z]*\d+[a-z]* [^\W\d]+ \w+"
    ).split()
]
N_SHAPES = len(_SHAPES)
# A window ends after a full stop, if one stands in this last part of it.
_ENDING = 0.5
# The first character of a mention, the one after its last, and the number of its label.
Tagged = tuple[int, int, int]

OUTSIDE = 0


def words_of(pieces: Pieces) -> Iterator[np.ndarray]:
    """The words of each text: int64 [w, 2], the first character of each and the one after its last."""
    for first, after in pairwise(pieces.first.tolist()):
        own = slice(first, after - 1)  # without the piece behind the text
        yield np.stack([pieces.starts[own], pieces.ends[own]], axis=1)


def shape_of(word: str) -> int:
    """What a word looks like, as one of N_SHAPES numbers."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(word))


class WordReader:
    """Reads documents word by word, in windows of at most ``length`` tokens, special ones included."""

    def __init__(self, tokenizer: Tokenizer, length: int):
        self._pieces = WordPieces(tokenizer)
        self._room = length - 2

    def inputs(self, pieces: Pieces, features: np.ndarray) -> WindowInputs:
        """Cut documents into windows, where a sentence ends if one does. They do not overlap.

        ``features`` are what is known of each of the n pieces, bool [n, f]. Their shapes are added.
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
                read = np.arange(n_words + start, n_words + end)
                tokens = [ids[word] for word in words[start:end]]
                windows.append(self._window(tokens, known[start:end], read))
            n_words += len(words)
        return WindowInputs(windows)

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

    def _window(self, pieces: list[list[int]], features: np.ndarray, words: np.ndarray) -> Window:
        """A window of words: "firsts" is on the first piece of each, "features" on all its pieces."""
        lengths = np.array([len(own) for own in pieces])
        ids = np.concatenate([[self._pieces.cls], *pieces, [self._pieces.sep]]).astype(np.int32)
        firsts = np.zeros(len(ids), dtype=bool)
        firsts[lengths.cumsum() - lengths + 1] = True
        spread = np.zeros((len(ids), features.shape[1]), dtype=np.float32)
        spread[1:-1] = features.repeat(lengths, axis=0)
        return Window(ids, words, {"firsts": firsts, "features": spread})


def allowed_tags(
    words: np.ndarray, mentions: Sequence[Tagged], annotated: np.ndarray
) -> np.ndarray:
    """The tags that may be right, bool [w, 1 + 2 n], for ``summed_loss``.

    ``words``, int64 [w, 2], are their characters; one that lies in a gold mention in part belongs to it.
    ``annotated``, bool [n], says which of the n labels the document has annotations of. Outside the
    mentions "outside" is allowed, and all tags of labels that are not annotated.
    """
    allowed = np.zeros((len(words), 1 + 2 * len(annotated)), dtype=bool)
    allowed[:, OUTSIDE] = True
    allowed[:, 1:] = ~annotated.repeat(2)
    for start, end, label in mentions:
        first = np.searchsorted(words[:, 1], start, side="right")
        last = np.searchsorted(words[:, 0], end, side="left")
        allowed[first:last] = False
        allowed[first : first + 1, 1 + 2 * label] = True
        allowed[first + 1 : last, 2 + 2 * label] = True
    return allowed


def shares_in_tokens(words: np.ndarray, tokens: np.ndarray) -> csr_array:
    """What share of a token each word is: float32 [t, w]; times values of words, the tokens' means.

    The arguments are the characters of both, int64 [w, 2] and [t, 2], ascending. A token that
    touches no word, such as blanks, has shares of 0.
    """
    first = np.searchsorted(words[:, 1], tokens[:, 0], side="right")
    counts = np.searchsorted(words[:, 0], tokens[:, 1], side="left") - first
    counts = np.maximum(counts, 0)
    bounds = np.concatenate([[0], counts.cumsum()])
    touched = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], counts)
    shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
    return csr_array((shares, touched, bounds), shape=(len(tokens), len(words)))


def without_labels(scores: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """The scores of tags, float32 [w, t], as if some labels, bool [n], were "outside"."""
    scores = scores.copy()
    others = scores[:, 1:][:, left_out.repeat(2)]
    scores[:, OUTSIDE] = np.logaddexp.reduce([scores[:, OUTSIDE], *others.T], axis=0)
    scores[:, 1:][:, left_out.repeat(2)] = -np.inf
    return scores


def tagged_mentions(words: Sequence[np.ndarray], scores: np.ndarray) -> list[list[Tagged]]:
    """The mentions of the most probable sequence of tags of each document (Viterbi).

    In a sequence "inside" follows only "begins" or "inside" of its label. ``scores``, float32 [sum of
    w, t], are those of the tags of all words, int64 [w, 2] of each document.
    """
    lengths = np.array([len(own) for own in words], dtype=np.int64)
    longest, n_tags = int(lengths.max(initial=0)), scores.shape[1]
    log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    # The documents one after another as rows; words that are not there change nothing.
    padded = np.zeros((len(words), longest, n_tags), dtype=np.float32)
    padded[np.arange(longest) < lengths[:, None]] = log_p
    inside = np.arange(2, n_tags, 2)
    forbidden = np.zeros((n_tags, n_tags), dtype=np.float32)  # from, to
    forbidden[:, inside] = -np.inf
    forbidden[inside, inside] = forbidden[inside - 1, inside] = 0
    before = np.zeros((longest, len(words), n_tags), dtype=np.int64)
    best = np.where(np.isin(np.arange(n_tags), inside), -np.inf, 0) + padded[:, :1].sum(1)
    for place in range(1, longest):
        paths = best[:, :, None] + forbidden
        over = (lengths <= place)[:, None]  # of a document that has ended the last tag stays
        before[place] = np.where(over, np.arange(n_tags), paths.argmax(1))
        best = np.where(over, best, paths.max(1) + padded[:, place])
    tag = best.argmax(1)
    tags = np.zeros((len(words), longest), dtype=np.int64)
    for place in range(longest - 1, -1, -1):
        tags[:, place] = tag
        tag = before[place][np.arange(len(words)), tag]
    return [_mentions(own, row[: len(own)]) for own, row in zip(words, tags)]


def _mentions(words: np.ndarray, tags: np.ndarray) -> list[Tagged]:
    found: list[Tagged] = []
    begins = np.flatnonzero((tags > OUTSIDE) & (tags % 2 == 1))
    for first in begins.tolist():
        last = first
        while last + 1 < len(tags) and tags[last + 1] == tags[first] + 1:
            last += 1
        found.append((int(words[first, 0]), int(words[last, 1]), int(tags[first] - 1) // 2))
    return found
