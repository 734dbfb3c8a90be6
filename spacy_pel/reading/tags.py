"""Mentions as tags of words, and back: "outside", then "begins" and "inside" of each label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# The first character of a mention, the one after its last, and the number of its label.
Tagged = tuple[int, int, int]

OUTSIDE = 0


def allowed_tags(
    words: np.ndarray, mentions: Sequence[Tagged], annotated: np.ndarray
) -> np.ndarray:
    """The tags that may be right, for ``summed_loss``.

    Args:
        words: int64 [w, 2], the characters of the words.
        mentions: The gold mentions; they do not overlap. A word that lies in a mention in part
            belongs to it.
        annotated: bool [n], which of the n labels are annotated in the document.

    Returns:
        bool [w, 1 + 2 n]. Outside the mentions "outside" is allowed, and all tags of labels that are
        not annotated.
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


def tagged_mentions(words: Sequence[np.ndarray], scores: np.ndarray) -> list[list[Tagged]]:
    """The mentions of the most probable sequence of tags of each document (Viterbi).

    In a sequence "inside" follows only "begins" or "inside" of its label.

    Args:
        words: The words of each document, int64 [w, 2].
        scores: float32 [sum of w, t], the scores of the tags of all words.
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
