"""Recall at k and mean reciprocal rank of candidates; precision and recall of documents' entities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

# The groups of mentions that are measured apart; "seen" and "unseen" are the two parts of "in_kb".
GROUPS = ("all", "in_kb", "seen", "unseen")


def first_hit_ranks(
    candidate_ids: Sequence[Sequence[str]], gold: Sequence[Collection[str]]
) -> np.ndarray:
    """The rank of each mention's first right candidate: int64 [n], from 1; 0 where none is right.

    candidate_ids: for each mention its candidates' entity ids, distinct, best first. gold: for each
    mention the ids any of which is right, no alternative ids; empty for NIL.
    """
    ranks = [
        next((rank for rank, id in enumerate(candidates, 1) if id in right), 0)
        for candidates, right in zip(candidate_ids, gold, strict=True)
    ]
    return np.asarray(ranks, dtype=np.int64)


def linking_metrics(
    ranks: Sequence[int] | np.ndarray,
    in_kb: Sequence[bool] | np.ndarray,
    seen: Sequence[bool] | np.ndarray | None = None,
    ks: Sequence[int] = (1, 5, 16, 64),
) -> dict[str, Any]:
    """Give counts, recall at each k and the mean reciprocal rank for four groups of mentions.

    In the group "all" a mention whose entity the KB lacks is a miss. A miss has the reciprocal rank 0.

    Args:
        ranks: int [n], the rank of the first right candidate, from 1; 0 if no candidate is right.
        in_kb: bool [n], whether the KB has one of the mention's gold ids.
        seen: bool [n], whether a gold entity of the mention occurs in training; None if unknown.
        ks: The depths of the recalls.

    Returns:
        {"mentions": n, "in_kb": n, "seen": n, "unseen": n, "recall@1": {"all": x, "in_kb": x, ...},
        ..., "mrr": {...}}, ready for JSON, with x from 0 to 1. The value of a group without
        mentions is None. Without ``seen`` all of "seen" and "unseen" is None.

    Raises:
        ValueError: Lengths differ, a rank is negative, or a mention has a rank and is not in the
            KB.
    """
    ranks, in_kb = np.asarray(ranks, dtype=np.int64), np.asarray(in_kb, dtype=bool)
    known = in_kb if seen is None else np.asarray(seen, dtype=bool)
    if not len(in_kb) == len(known) == len(ranks):
        raise ValueError(f"{len(ranks)} ranks, {len(in_kb)} in_kb and {len(known)} seen flags")
    if (ranks < 0).any() or ranks[~in_kb].any():
        raise ValueError("ranks are 0 or more, and 0 where no gold id is in the KB")
    parts = (None, None) if seen is None else (in_kb & known, in_kb & ~known)
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
    """Give precision, recall and F1 of the distinct entities, as BC5CDR and NCBI disease count them.

    An entity counts once in each document, however many mentions it has there. A mention with
    several gold entities counts for each of them. A value whose denominator is 0 is None.

    documents: for each the gold entity ids of all its mentions, and the entity ids that were predicted.
    """
    gold = predicted = right = 0
    for gold_ids, predicted_ids in documents:
        gold += len(set(gold_ids))
        predicted += len(set(predicted_ids))
        right += len(set(gold_ids) & set(predicted_ids))
    return {
        "precision": right / predicted if predicted else None,
        "recall": right / gold if gold else None,
        "f1": 2 * right / (gold + predicted) if gold + predicted else None,
    }


def metrics_table(metrics: dict[str, Any]) -> str:
    """Write the result of ``linking_metrics`` as a Markdown table, in percent with one decimal."""
    names = [name for name in metrics if name.startswith("recall@") or name == "mrr"]
    counts = (metrics["mentions" if group == "all" else group] for group in GROUPS)
    rows = [
        ["mentions", *("-" if count is None else f"{count:,}" for count in counts)],
        *([name, *(percent(metrics[name][group]) for group in GROUPS)] for name in names),
    ]
    return markdown_table(["", *GROUPS], rows)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column aligned to the left, the others to the right."""
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
    """A share in percent with one decimal; "-" for None."""
    return "-" if value is None else f"{100 * value:.1f}"
