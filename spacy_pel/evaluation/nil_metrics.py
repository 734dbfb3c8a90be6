"""NIL, the class of mentions whose entity the KB lacks: their best candidates score low."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def best_nil_threshold(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> float | None:
    """Return the threshold below which calling a mention NIL gives the best F1 of that class.

    scores: [n] score of each mention's best candidate; -inf where there is no candidate, inf where
        the mention was not linked, so that no threshold makes it NIL.
    gold_nil: [n] whether the KB lacks the mention's entity.

    Thresholds lie midway between scores; of equally good ones the lowest, which rejects least, is
    taken. None where no mention is NIL.
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
    """Return the area under the precision-recall curve of NIL by (1 - score), as a step function.

    The arguments are those of best_nil_threshold; equal scores are one point. None where no mention
    is NIL.
    """
    n_nil = int(np.asarray(gold_nil, dtype=bool).sum())
    _, called, hits = _operating_points(scores, gold_nil)
    if not n_nil:
        return None
    return float((np.diff(hits, prepend=0) * hits / called).sum() / n_nil)


def precision_recall_curve(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray, points: int = 200
) -> dict[str, list[float]] | None:
    """Return precision and recall of NIL at up to ``points`` levels of recall, which rise.

    The arguments are those of best_nil_threshold. Of the thresholds that reach a level, the lowest
    is taken. {"precision": [...], "recall": [...]}, equally long, ready for JSON; None where no
    mention is NIL, or none of those was linked.
    """
    _, called, hits = _operating_points(scores, gold_nil)
    if not len(hits) or not hits[-1]:
        return None
    levels = np.unique(np.linspace(1, hits[-1], points).round())
    at = np.searchsorted(hits, levels)
    return {
        "precision": (hits[at] / called[at]).tolist(),
        "recall": (hits[at] / np.asarray(gold_nil, dtype=bool).sum()).tolist(),
    }


def nil_metrics(
    scores: Sequence[float] | np.ndarray,
    said_nil: Sequence[bool] | np.ndarray,
    ranks: Sequence[int] | np.ndarray,
    in_kb: Sequence[bool] | np.ndarray,
    *,
    decided: bool,
) -> dict[str, Any]:
    """Return how well NIL is told, and recall at 1 and 64 over all classes, NIL being one of them.

    scores: as in best_nil_threshold. said_nil: [n] whether the mention was called NIL. ranks and
    in_kb: as in ``linking_metrics``. decided: whether the linker has a threshold.

    {"gold": n, "average_precision": x, "precision": x, "recall": x, "f1": x, "recall@1": x,
    "recall@64": x, "curve": {...}}, ready for JSON, with None where a figure is not defined:
    precision, recall and F1 without a threshold, precision where nothing was called NIL, recall
    where nothing is. The curve is that of precision_recall_curve.

    For the recall over all classes, NIL stands before the candidates of a mention that was called
    so, and nowhere else: a mention that is NIL is a hit if and only if it was called NIL, and one
    that is not, but was called so, is a miss at rank 1, its entity one rank further down.
    """
    said_nil, in_kb = np.asarray(said_nil, dtype=bool), np.asarray(in_kb, dtype=bool)
    ranks = np.asarray(ranks, dtype=np.int64)
    hits, called, gold = (int(m.sum()) for m in (said_nil & ~in_kb, said_nil, ~in_kb))
    with_nil = np.where(in_kb, np.where(ranks > 0, ranks + said_nil, 0), said_nil)
    return {
        "gold": gold,
        "average_precision": average_precision(scores, ~in_kb),
        "precision": _ratio(hits, called) if decided else None,
        "recall": _ratio(hits, gold) if decided else None,
        "f1": _ratio(2 * hits, called + gold) if decided else None,
        **{
            f"recall@{k}": _ratio(int(((with_nil > 0) & (with_nil <= k)).sum()), len(ranks))
            for k in (1, 64)
        },
        "curve": precision_recall_curve(scores, ~in_kb),
    }


def nil_summary(metrics: dict[str, Any]) -> str:
    """Return the result of nil_metrics as a line of text, in percent with one decimal."""
    figures = {
        name: "-" if value is None else f"{100 * value:.1f}"
        for name, value in metrics.items()
        if name not in ("gold", "curve")
    }
    return f"NIL: {metrics['gold']:,} mentions; " + ", ".join(
        f"{name.replace('_', ' ')} {figure}" for name, figure in figures.items()
    )


def _operating_points(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct scores below inf, rising, and for each what calling NIL up to it gives.

    That is the number of mentions that are called NIL, and of those that are NIL among them.
    """
    scores, gold_nil = np.asarray(scores, dtype=np.float64), np.asarray(gold_nil, dtype=bool)
    order = np.argsort(scores, kind="stable")
    order = order[scores[order] < np.inf]
    edges, counts = np.unique(scores[order], return_counts=True)
    called = np.cumsum(counts)
    return edges, called, np.cumsum(gold_nil[order])[called - 1]


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
