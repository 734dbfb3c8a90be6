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
    """Return the mentions of the most probable tag sequence of each document.

    "Inside" may follow only "begins" or "inside" of its label.

    Args:
        words: The start and end of each word, int64 [w, 2] per document.
        scores: The scores of the tags of all words, float32 [sum of w, t].
    """
    lengths = np.array(list(map(len, words)), dtype=np.int64)
    ends = lengths.cumsum()
    tags = _best_tags(scores, (ends - lengths)[lengths > 0])
    others = np.append(np.flatnonzero(tags * (tags % 2 - 1) == 0), len(tags))  # than "inside"
    begins = np.flatnonzero(tags % 2)
    lasts = others[others.searchsorted(begins, side="right")] - 1
    offsets = np.concatenate(words)
    starts, stops = offsets[begins, 0], offsets[lasts, 1]
    documents, labels = ends.searchsorted(begins, side="right"), (tags[begins] - 1) // 2
    mentions: list[list[Tagged]] = [[] for _ in words]
    for document, *mention in np.column_stack([documents, starts, stops, labels]).tolist():
        mentions[document].append(tuple(mention))
    return mentions


def _best_tags(scores: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Return the best tag of each word: int64 [w]. ``documents`` has the first word of each.

    Viterbi decoding, of all runs of words at once: a run ends before a word that no best path enters as
    "inside", since "begins" of the same label scores as much there and allows the same to follow.
    """
    starts: np.ndarray = np.all(scores[:, 1::2] >= scores[:, 2::2], axis=1)
    starts[documents] = True
    firsts = np.flatnonzero(starts)
    lengths = np.diff(firsts, append=len(scores))
    order = np.argsort(-lengths, kind="stable")
    firsts, lengths = firsts[order], lengths[order]
    n_runs = [int((lengths > position).sum()) for position in range(lengths.max(initial=0))]
    n_tags = scores.shape[1]
    inside = np.arange(2, n_tags, 2)
    forbidden = np.zeros((n_tags, n_tags), dtype=np.float32)  # from, to
    forbidden[:, inside] = -np.inf
    forbidden[inside, inside] = forbidden[inside - 1, inside] = 0
    best = scores[firsts]
    best[:, inside] = -np.inf
    before = []
    for position, n in enumerate(n_runs[1:], 1):
        paths = best[:n, :, None] + forbidden
        before.append(paths.argmax(1))
        best[:n] = paths.max(1) + scores[firsts[:n] + position]
    tag, tags = best.argmax(1), np.zeros(len(scores), dtype=np.int64)
    for position, n in reversed(list(enumerate(n_runs[1:], 1))):
        tags[firsts[:n] + position] = tag[:n]
        tag[:n] = before[position - 1][np.arange(n), tag[:n]]
    tags[firsts] = tag
    return tags
