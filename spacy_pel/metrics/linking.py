"""Metrics of linking: recall at k and MRR of candidates, precision and recall of concepts, and NIL.

A mention is NIL if the KB lacks its entity. ``linking.nil`` decides it for the linker.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

# The groups of mentions with separate metrics; "seen" and "unseen" are the two parts of "in_kb".
GROUPS = ("all", "in_kb", "seen", "unseen")


def first_hit_ranks(
    candidate_ids: Sequence[Sequence[str]], gold: Sequence[Collection[str]]
) -> np.ndarray:
    """Return the rank of the first correct candidate of each mention: int64 [n], from 1; 0 for none.

    Args:
        candidate_ids: The distinct entity ids of the candidates of each mention, best first.
        gold: The gold ids of each mention, without alternative ids. Any of them is correct; NIL has none.
    """
    ranks = [
        next((rank for rank, id in enumerate(candidates, 1) if id in gold_ids), 0)
        for candidates, gold_ids in zip(candidate_ids, gold, strict=True)
    ]
    return np.asarray(ranks, dtype=np.int64)


def linking_metrics(
    ranks: Sequence[int] | np.ndarray,
    in_kb: Sequence[bool] | np.ndarray,
    seen: Sequence[bool] | np.ndarray | None = None,
    ks: Sequence[int] = (1, 5, 16, 64),
) -> dict[str, Any]:
    """Return counts, recall at each k, and the mean reciprocal rank for four groups of mentions.

    In the group "all", a mention whose entity the KB lacks is a miss. A miss has the reciprocal rank 0.

    Args:
        ranks: int [n], the rank of the first correct candidate, from 1; 0 for none.
        in_kb: bool [n], whether the KB has one of the mention's gold ids.
        seen: bool [n], whether a gold entity of the mention occurs in training; None if unknown.
        ks: The cut-offs of the recall.

    Returns:
        {"mentions": n, "in_kb": n, "seen": n, "unseen": n, "recall@1": {"all": x, "in_kb": x, ...},
        ..., "mrr": {...}}, ready for JSON, with x from 0 to 1. The value of a group without
        mentions is None. Without ``seen`` all values of "seen" and "unseen" are None.
    """
    ranks, in_kb = np.asarray(ranks, dtype=np.int64), np.asarray(in_kb, dtype=bool)
    parts = (None, None)
    if seen is not None:
        seen = np.asarray(seen, dtype=bool)
        parts = in_kb & seen, in_kb & ~seen
    members = dict(zip(GROUPS, (np.ones(len(ranks), dtype=bool), in_kb, *parts)))
    reciprocal = np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=ranks > 0)
    values = {f"recall@{k}": (ranks > 0) & (ranks <= k) for k in ks} | {"mrr": reciprocal}
    counts = {
        "mentions" if group == "all" else group: None if mask is None else int(mask.sum())
        for group, mask in members.items()
    }
    return counts | {
        name: {group: _mean(value, mask) for group, mask in members.items()}
        for name, value in values.items()
    }


def concept_scores(
    documents: Iterable[tuple[Collection[str], Collection[str]]],
) -> dict[str, float | None]:
    """Return precision, recall, and F1 of distinct entities, as BC5CDR and NCBI disease count them.

    An entity counts once per document, regardless of its number of mentions. A mention with several
    gold entities counts for each of them. A value whose denominator is 0 is None.

    Args:
        documents: The gold entity ids of each document, and the predicted ones.
    """
    gold = predicted = correct = 0
    for gold_ids, predicted_ids in documents:
        gold += len(set(gold_ids))
        predicted += len(set(predicted_ids))
        correct += len(set(gold_ids) & set(predicted_ids))
    return {
        "precision": _ratio(correct, predicted),
        "recall": _ratio(correct, gold),
        "f1": _ratio(2 * correct, gold + predicted),
    }


def metrics_table(metrics: dict[str, Any]) -> str:
    """Return the result of ``linking_metrics`` as a Markdown table of percentages with one decimal."""
    names = [name for name in metrics if name.startswith("recall@") or name == "mrr"]
    counts = (metrics["mentions" if group == "all" else group] for group in GROUPS)
    rows = [
        ["mentions", *("-" if count is None else f"{count:,}" for count in counts)],
        *([name, *(percent(metrics[name][group]) for group in GROUPS)] for name in names),
    ]
    return markdown_table(["", *GROUPS], rows)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is left-aligned and whose others are right-aligned."""
    columns = zip(header, *rows, strict=True)
    widths = [max(2, *(len(cell) for cell in column)) for column in columns]
    rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        for row in (header, *rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rules, *lines[1:]])


def _mean(values: np.ndarray, mask: np.ndarray | None) -> float | None:
    return None if mask is None or not mask.any() else float(values[mask].mean())


def percent(value: float | None) -> str:
    """Return a share as a percentage with one decimal, or "-" for None."""
    return "-" if value is None else f"{100 * value:.1f}"


def best_nil_threshold(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> float | None:
    """Return the NIL threshold with the best F1 of NIL, or None if no mention is NIL.

    A mention whose score is below the threshold is predicted to be NIL. Thresholds are midway between
    scores. Ties go to the lowest threshold, which predicts NIL least often.

    Args:
        scores: Float [n], the score of the best candidate of each mention; -inf for a mention without
            candidates; inf for a mention that was not linked, which no threshold makes NIL.
        gold_nil: bool [n], whether the KB lacks the mention's entity.
    """
    edges, predicted, hits = _operating_points(scores, gold_nil)
    if not len(edges) or not hits[-1]:
        return None
    at = int(np.argmax(2 * hits / (predicted + np.asarray(gold_nil, dtype=bool).sum())))
    above = edges[at + 1] if at + 1 < len(edges) else np.nextafter(edges[at], np.inf)
    middle = edges[at] / 2 + above / 2
    return float(middle if middle > edges[at] else above)  # one of them is -inf, or they are close


def average_precision(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> float | None:
    """Return the area under the precision-recall curve of NIL, a step function, or None without NIL.

    Equal scores are one point of the curve. For the arguments see ``best_nil_threshold``.
    """
    n_nil = int(np.asarray(gold_nil, dtype=bool).sum())
    _, predicted, hits = _operating_points(scores, gold_nil)
    if not n_nil:
        return None
    return float((np.diff(hits, prepend=0) * hits / predicted).sum() / n_nil)


def nil_metrics(
    scores: Sequence[float] | np.ndarray,
    predicted_nil: Sequence[bool] | np.ndarray,
    ranks: Sequence[int] | np.ndarray,
    in_kb: Sequence[bool] | np.ndarray,
    *,
    decided: bool,
) -> dict[str, Any]:
    """Return the metrics of NIL predictions, and recall with NIL as an additional class.

    For this recall, a NIL mention is a hit if it was predicted to be NIL. A mention that was wrongly
    predicted to be NIL is a miss at any rank, because its candidates were rejected; otherwise the
    paper's Table 4 does not add up. "recall@64_nil_as_candidate" counts a prediction of NIL as an
    additional candidate, ranked first.

    Args:
        scores: As in ``best_nil_threshold``.
        predicted_nil: bool [n], whether the mention was predicted to be NIL.
        ranks: As in ``linking_metrics``.
        in_kb: As in ``linking_metrics``.
        decided: Whether the linker has a NIL threshold.

    Returns:
        {"gold": n, "average_precision": x, "precision": x, "recall": x, "f1": x, "recall@1": x,
        "recall@64": x, "recall@64_nil_as_candidate": x}, ready for JSON, with x from 0 to 1. "gold"
        is the number of NIL mentions. Undefined values are None: precision, recall, and F1 without a
        threshold, precision without predictions of NIL, and recall if no mention is NIL.
    """
    predicted_nil, in_kb = np.asarray(predicted_nil, dtype=bool), np.asarray(in_kb, dtype=bool)
    ranks = np.asarray(ranks, dtype=np.int64)
    hits = int((predicted_nil & ~in_kb).sum())
    predicted, gold = int(predicted_nil.sum()), int((~in_kb).sum())
    with_nil = np.where(in_kb, np.where(predicted_nil, 0, ranks), predicted_nil)
    as_candidate = np.where(in_kb, np.where(ranks > 0, ranks + predicted_nil, 0), predicted_nil)
    return {
        "gold": gold,
        "average_precision": average_precision(scores, ~in_kb),
        "precision": _ratio(hits, predicted) if decided else None,
        "recall": _ratio(hits, gold) if decided else None,
        "f1": _ratio(2 * hits, predicted + gold) if decided else None,
        "recall@1": _recall(with_nil, 1),
        "recall@64": _recall(with_nil, 64),
        "recall@64_nil_as_candidate": _recall(as_candidate, 64),
    }


def nil_summary(metrics: dict[str, Any]) -> str:
    """Return the result of ``nil_metrics`` as a line of percentages with one decimal."""
    figures = ", ".join(
        f"{name.replace('_', ' ')} {percent(value)}"
        for name, value in metrics.items()
        if name != "gold"
    )
    return f"NIL: {metrics['gold']:,} mentions; {figures}"


def _operating_points(
    scores: Sequence[float] | np.ndarray, gold_nil: Sequence[bool] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ascending distinct scores below inf, with the mentions and NILs that score up to each."""
    scores, gold_nil = np.asarray(scores, dtype=np.float64), np.asarray(gold_nil, dtype=bool)
    order = np.argsort(scores, kind="stable")
    order = order[scores[order] < np.inf]
    edges, counts = np.unique(scores[order], return_counts=True)
    predicted = np.cumsum(counts)
    return edges, predicted, np.cumsum(gold_nil[order])[predicted - 1]


def _recall(ranks: np.ndarray, k: int) -> float | None:
    return _ratio(int(((ranks > 0) & (ranks <= k)).sum()), len(ranks))  # rank 0 is a miss


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
