"""Where NIL is decided: whether the knowledge base lacks a mention's entity.

This is the only place. ``link`` asks here for every mention. ``pel calibrate`` asks here for the
figures of the threshold that it has just chosen (``evaluation.nil_metrics.best_nil_threshold``).
Everything else reads the answer: ``Links.nil``, and ``"NIL"`` as the id of a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..reading.mention import MentionInContext
from .exact_names import sole_owners


class Sure(NamedTuple):
    """What makes an answer sure, so that no threshold makes it NIL."""

    # Where names are looked up. A mention is sure of its first candidate if that alone has it as a
    # name.
    kb: KnowledgeBase
    # A mention is sure if its first candidate is right with this probability at least. So NIL never
    # contradicts the probability that is shown.
    probability: float

    def of(
        self,
        mentions: Sequence[MentionInContext],
        first: np.ndarray,
        probabilities: np.ndarray | None,
    ) -> np.ndarray:
        """Tell which of n mentions are sure, bool [n].

        Args:
            mentions: The mentions.
            first: int64 [n], the numbers of their first candidates; -1 for none.
            probabilities: Float [n], that these are right; None without a calibration.
        """
        named = sole_owners(self.kb, mentions, first[:, None])[:, 0]
        if probabilities is None:
            return named
        return named | ((first >= 0) & (probabilities >= self.probability))


def is_nil(
    best_scores: Sequence[float] | np.ndarray,
    threshold: float | None,
    sure: np.ndarray | None = None,
) -> np.ndarray:
    """Decide for each of n mentions whether it is NIL, bool [n].

    A mention is NIL if the retriever's best score for it is below the threshold, unless it is sure
    (``Sure``). A mention without a candidate is NIL under any threshold. Without a threshold no
    mention is NIL.

    The retriever's score is compared, also where a reranker or exact names order the candidates: a
    reranker compares candidates with each other and does not say how good the best of them is.

    Args:
        best_scores: Float [n]: the retriever's highest score for each mention; -inf for a mention
            without a candidate, inf for one that must not be NIL.
        threshold: The NIL threshold of the linker, or None.
        sure: Bool [n]: the mentions that are sure; None: none is.
    """
    best = np.asarray(best_scores, dtype=np.float64)
    if threshold is None:
        return np.zeros(best.shape, dtype=bool)
    return best < threshold if sure is None else (best < threshold) & ~np.asarray(sure, dtype=bool)
