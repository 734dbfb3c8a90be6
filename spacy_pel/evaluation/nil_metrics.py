"""How well NIL mentions are found, and the threshold that finds them best.

A mention is NIL if the KB lacks its entity. Its best candidate then scores low. The decision itself
is made in ``linking.nil``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .linking_metrics import percent


def best_nil_threshold(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> float | None:
    """Find the NIL threshold with the best F1 of NIL; None if no mention is NIL.

    A mention whose score is below the threshold is called NIL. Thresholds lie midway between
    scores. Of equally good ones the lowest is taken, which calls the fewest mentions NIL.

    Args:
        scores: Float [n], the score of each mention's best candidate; -inf for a mention without a
            candidate; inf for a mention that was not linked, which no threshold makes NIL.
        gold_nil: bool [n], whether the KB lacks the mention's entity.
    """
    edges, called, hits = _operating_points(scores, gold_nil)
    if not len(edges) or not hits[-1]:
        return None
    at = int(np.argmax(2 * hits / (called + np.asarray(gold_nil, dtype=bool).sum())))
    above = edges[at + 1] if at + 1 < len(edges) else np.nextafter(edges[at], np.inf)
    middle = edges[at] / 2 + above / 2
    return float(middle if middle > edges[at] else above)  # one of them is -inf, or they are close


def average_precision(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> float | None:
    """The area under the precision-recall curve of NIL, as a step function; None without NIL.

    Equal scores are one point of the curve. The arguments are those of ``best_nil_threshold``.
    """
    n_nil = int(np.asarray(gold_nil, dtype=bool).sum())
    _, called, hits = _operating_points(scores, gold_nil)
    if not n_nil:
        return None
    return float((np.diff(hits, prepend=0) * hits / called).sum() / n_nil)


def nil_metrics(
    scores: Sequence[float] | np.ndarray,
    said_nil: Sequence[bool] | np.ndarray,
    ranks: Sequence[int] | np.ndarray,
    in_kb: Sequence[bool] | np.ndarray,
    *,
    decided: bool,
) -> dict[str, Any]:
    """Measure how well NIL mentions are found, and recall with NIL as one more class.

    For the recall over all classes, a mention that is NIL is a hit if and only if it was called NIL.
    A mention that is not NIL but was called so is a miss at any rank: its candidates were rejected.
    The paper's Table 4 adds up only if it counts so. "recall@64_nil_as_candidate" takes NIL as one
    more candidate of a mention that was called NIL, before the others.

    Args:
        scores: As of ``best_nil_threshold``.
        said_nil: bool [n], whether the mention was called NIL.
        ranks: As of ``linking_metrics``.
        in_kb: As of ``linking_metrics``.
        decided: Whether the linker has a NIL threshold.

    Returns:
        {"gold": n, "average_precision": x, "precision": x, "recall": x, "f1": x, "recall@1": x,
        "recall@64": x, "recall@64_nil_as_candidate": x}, ready for JSON, with x from 0 to 1. "gold"
        is the number of mentions that are NIL. A value that is not defined is None: precision, recall
        and F1 without a threshold, precision if nothing was called NIL, recall if nothing is NIL.
    """
    said_nil, in_kb = np.asarray(said_nil, dtype=bool), np.asarray(in_kb, dtype=bool)
    ranks = np.asarray(ranks, dtype=np.int64)
    hits, called, gold = (int(m.sum()) for m in (said_nil & ~in_kb, said_nil, ~in_kb))
    answered = np.where(in_kb, np.where(said_nil, 0, ranks), said_nil)
    as_candidate = np.where(in_kb, np.where(ranks > 0, ranks + said_nil, 0), said_nil)
    return {
        "gold": gold,
        "average_precision": average_precision(scores, ~in_kb),
        "precision": _ratio(hits, called) if decided else None,
        "recall": _ratio(hits, gold) if decided else None,
        "f1": _ratio(2 * hits, called + gold) if decided else None,
        "recall@1": _recall(answered, 1),
        "recall@64": _recall(answered, 64),
        "recall@64_nil_as_candidate": _recall(as_candidate, 64),
    }


def nil_summary(metrics: dict[str, Any]) -> str:
    """Write the result of ``nil_metrics`` as a line of text, in percent with one decimal."""
    figures = ", ".join(
        f"{name.replace('_', ' ')} {percent(value)}"
        for name, value in metrics.items()
        if name != "gold"
    )
    return f"NIL: {metrics['gold']:,} mentions; {figures}"


def _operating_points(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct scores below inf, rising; how many mentions score so or lower; and how many are NIL."""
    scores, gold_nil = np.asarray(scores, dtype=np.float64), np.asarray(gold_nil, dtype=bool)
    order = np.argsort(scores, kind="stable")
    order = order[scores[order] < np.inf]
    edges, counts = np.unique(scores[order], return_counts=True)
    called = np.cumsum(counts)
    return edges, called, np.cumsum(gold_nil[order])[called - 1]


def _recall(ranks: np.ndarray, k: int) -> float | None:
    return _ratio(int(((ranks > 0) & (ranks <= k)).sum()), len(ranks))  # rank 0 is a miss


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
