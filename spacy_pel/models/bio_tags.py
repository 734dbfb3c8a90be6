"""BIO tags of words: those that gold mentions allow, and the mentions of the most probable tags."""

from collections.abc import Sequence

import numpy as np

# The first character of a mention, the one after its last, and the number of its label.
Tagged = tuple[int, int, int]

OUTSIDE = 0


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
    found: list[list[Tagged]] = []
    for own, row in zip(words, tags):
        found.append([])
        bounds, row = own.tolist(), row[: len(own)].tolist()
        for first in (place for place, tag in enumerate(row) if tag % 2 == 1):
            last = first
            while row[last + 1 : last + 2] == [row[first] + 1]:
                last += 1
            found[-1].append((bounds[first][0], bounds[last][1], (row[first] - 1) // 2))
    return found
