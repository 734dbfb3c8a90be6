"""The entities of whole documents: how BC5CDR's and NCBI disease's own evaluations count."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def concept_scores(
    documents: Iterable[tuple[Collection[str], Collection[str]]],
) -> dict[str, float | None]:
    """Precision, recall and F1 of the distinct entities of documents, over all documents together.

    documents: for each the gold entity ids and those said, of all its mentions. Of a mention that
    names several entities, each counts for itself.
    Gives {"precision": x, "recall": y, "f1": z}, from 0 to 1; None where there is nothing to
    divide by.
    """
    gold = said = right = 0
    for gold_ids, said_ids in documents:
        gold += len(set(gold_ids))
        said += len(set(said_ids))
        right += len(set(gold_ids) & set(said_ids))
    return {
        "precision": right / said if said else None,
        "recall": right / gold if gold else None,
        "f1": 2 * right / (gold + said) if gold + said else None,
    }
