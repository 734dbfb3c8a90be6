"""Where NIL is decided: whether the knowledge base lacks a mention's entity.

This is the only place. ``link`` asks here for every mention. ``pel calibrate`` asks here for the
figures of the threshold that it has just chosen (``evaluation.nil_metrics.best_nil_threshold``).
Everything else reads the answer: ``Links.nil``, and ``"NIL"`` as the id of a span.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def is_nil(best_scores: Sequence[float] | np.ndarray, threshold: float | None) -> np.ndarray:
    """Decide for each mention whether it is NIL.

    A mention is NIL if the retriever's best score for it is below the threshold. A mention without
    a candidate is NIL under any threshold. Without a threshold no mention is NIL.

    The retriever's score decides, also where a reranker or exact names order the candidates: a
    reranker compares candidates with each other and does not say how good the best of them is.

    Args:
        best_scores: Float [n]: the retriever's highest score for each mention; -inf for a mention
            without a candidate, inf for one that must not be NIL.
        threshold: The NIL threshold of the linker, or None.

    Returns:
        Bool [n].
    """
    best = np.asarray(best_scores, dtype=np.float64)
    return np.zeros(best.shape, dtype=bool) if threshold is None else best < threshold
