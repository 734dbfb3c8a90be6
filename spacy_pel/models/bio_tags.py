"""BIO tags of words: the tags that gold mentions allow, and Viterbi decoding."""

from collections.abc import Sequence

import numpy as np

# The first character of a mention, the one after its last, and the number of its label.
Tagged = tuple[int, int, int]

OUTSIDE = 0


def allowed_tags(
    words: np.ndarray, mentions: Sequence[Tagged], annotated: np.ndarray
) -> np.ndarray:
    """Return the tags that may be correct, bool [w, 1 + 2 n], for ``summed_loss``.

    Outside the mentions, "outside" and all tags of labels without annotations are allowed.

    Args:
        words: The start and end of each word, int64 [w, 2]. A word partly in a mention belongs to it.
        mentions: The gold mentions.
        annotated: bool [n], whether the document has annotations of each of the n labels.
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
    """Return the scores of tags, float32 [w, t], with some labels, bool [n], counted as "outside"."""
    scores = scores.copy()
    others = scores[:, 1:][:, left_out.repeat(2)]
    scores[:, OUTSIDE] = np.logaddexp.reduce([scores[:, OUTSIDE], *others.T], axis=0)
    scores[:, 1:][:, left_out.repeat(2)] = -np.inf
    return scores


def tagged_mentions(words: Sequence[np.ndarray], scores: np.ndarray) -> list[list[Tagged]]:
    """Return the mentions of the most probable tag sequence of each document (Viterbi).

    "Inside" may follow only "begins" or "inside" of its label.

    Args:
        words: The start and end of each word, int64 [w, 2] per document.
        scores: The scores of the tags of all words, float32 [sum of w, t].
    """
    lengths = np.array([len(offsets) for offsets in words], dtype=np.int64)
    longest, n_tags = int(lengths.max(initial=0)), scores.shape[1]
    log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    padded = np.zeros((len(words), longest, n_tags), dtype=np.float32)  # a row per document
    padded[np.arange(longest) < lengths[:, None]] = log_p
    inside = np.arange(2, n_tags, 2)
    forbidden = np.zeros((n_tags, n_tags), dtype=np.float32)  # from, to
    forbidden[:, inside] = -np.inf
    forbidden[inside, inside] = forbidden[inside - 1, inside] = 0
    before = np.zeros((longest, len(words), n_tags), dtype=np.int64)
    best = np.where(np.isin(np.arange(n_tags), inside), -np.inf, 0) + padded[:, :1].sum(1)
    for position in range(1, longest):
        paths = best[:, :, None] + forbidden
        has_ended = (lengths <= position)[:, None]  # the last tag of a document stays
        before[position] = np.where(has_ended, np.arange(n_tags), paths.argmax(1))
        best = np.where(has_ended, best, paths.max(1) + padded[:, position])
    tag = best.argmax(1)
    tags = np.zeros((len(words), longest), dtype=np.int64)
    for position in range(longest - 1, -1, -1):
        tags[:, position] = tag
        tag = before[position][np.arange(len(words)), tag]
    mentions: list[list[Tagged]] = []
    for offsets, row in zip(words, tags):
        mentions.append([])
        bounds, row = offsets.tolist(), row[: len(offsets)].tolist()
        for first, tag in enumerate(row):
            if tag % 2 == 0:  # outside, or inside
                continue
            last = first
            while row[last + 1 : last + 2] == [tag + 1]:
                last += 1
            mentions[-1].append((bounds[first][0], bounds[last][1], (tag - 1) // 2))
    return mentions
