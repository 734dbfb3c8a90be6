"""Scores over the distinct entities of documents, as BC5CDR and NCBI disease count them."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def concept_scores(
    documents: Iterable[tuple[Collection[str], Collection[str]]],
) -> dict[str, float | None]:
    """Give precision, recall and F1 of the distinct entities of documents.

    An entity counts once in each document, however many mentions it has there. A mention with
    several gold entities counts for each of them.

    Args:
        documents: For each document the gold entity ids of all its mentions, and the entity ids
            that were predicted.

    Returns:
        {"precision": x, "recall": y, "f1": z}, from 0 to 1, over all documents together. A value
        whose denominator is 0 is None.
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
