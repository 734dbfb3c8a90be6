"""The only place that decides NIL: whether the knowledge base lacks a mention's entity.

``link`` and ``pel calibrate`` call this module. All other code reads the result: ``Links.nil``, and
``"NIL"`` as the id of a span.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..text.mention_inputs import MentionInContext
from .ordering import sure_owners


class NilPolicy(NamedTuple):
    """Keeps mentions with a sure first candidate from being NIL.

    So NIL never contradicts the probability that is shown.
    """

    kb: KnowledgeBase  # the KB in which names are looked up
    # The probability from which a first candidate is sure. None: the threshold alone decides.
    sure_probability: float | None

    def is_sure(self, owns: np.ndarray, probabilities: np.ndarray | None) -> np.ndarray:
        """Return which of n first candidates are sure, bool [n].

        Args:
            owns: bool [n], whether the candidate is a sure owner of the name (``sure_owners``).
            probabilities: float [n], that a candidate is correct; None: unknown.
        """
        if self.sure_probability is None:
            return np.zeros(len(owns), dtype=bool)
        if probabilities is None:
            return owns
        return owns | (probabilities >= self.sure_probability)

    def decided(
        self,
        nil: np.ndarray,
        mentions: Sequence[MentionInContext],
        first: np.ndarray,
        probabilities: np.ndarray | None,
    ) -> np.ndarray:
        """Return which of n mentions are NIL, bool [n].

        Args:
            nil: bool [n], the decision by the threshold.
            mentions: The mentions.
            first: int64 [n], the numbers of their first candidates; -1 for none.
            probabilities: As ``Links.probabilities``.
        """
        if self.sure_probability is None or not nil.any():
            return nil
        doubtful = np.flatnonzero(nil)  # names are looked up for these few alone
        first_numbers = first[doubtful]
        first_probabilities = None
        if probabilities is not None:
            first_probabilities = np.where(first_numbers >= 0, probabilities[doubtful, 0], np.nan)
        doubtful_mentions = [mentions[i] for i in doubtful.tolist()]
        owns = sure_owners(self.kb, doubtful_mentions, first_numbers[:, None])[:, 0]
        decided: np.ndarray = nil.copy()
        decided[doubtful] = ~self.is_sure(owns, first_probabilities)
        return decided


def is_nil(nil_scores: Sequence[float] | np.ndarray, threshold: float | None) -> np.ndarray:
    """Return which of n mentions are NIL by a threshold, bool [n].

    A mention is NIL if its score is below the threshold. A mention without a candidate is NIL under
    any threshold. Without a threshold no mention is NIL.

    With a learnt ranking the score is the probability that a candidate is correct. Without one it is the
    retriever's best score, even if a reranker or exact names order the candidates: a reranker compares
    candidates with each other, but does not tell how good the best of them is.

    Args:
        nil_scores: Float [n], as ``Links.nil_score``: -inf for a mention without a candidate, inf for
            a mention that must not be NIL.
        threshold: The NIL threshold of the linker, or None.
    """
    if threshold is None:
        return np.zeros(len(nil_scores), dtype=bool)
    nil: np.ndarray = np.asarray(nil_scores, dtype=np.float64) < threshold
    return nil
