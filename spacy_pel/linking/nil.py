"""Where NIL is decided, and nowhere else: whether the knowledge base lacks a mention's entity.

``link`` asks here, and ``pel calibrate`` for the figures of a threshold that it has chosen. Everything
else reads the answer: ``Links.nil``, and ``"NIL"`` as the id of a span.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..text.mention_inputs import MentionInContext
from .ordering import unambiguous_owners


class NilPolicy(NamedTuple):
    """What keeps a mention from being NIL, whatever the threshold says.

    So NIL never contradicts the probability that is shown.
    """

    kb: KnowledgeBase  # where names are looked up
    # The probability from which a first candidate is sure. None: the threshold alone decides.
    sure_probability: float | None

    def is_sure(self, unambiguous: np.ndarray, probabilities: np.ndarray | None) -> np.ndarray:
        """Return which of n first candidates are sure, bool [n].

        Args:
            unambiguous: bool [n], whether a candidate alone has the mention as a name.
            probabilities: float [n], that a candidate is correct; None: unknown.
        """
        if self.sure_probability is None:
            return np.zeros(len(unambiguous), dtype=bool)
        if probabilities is None:
            return unambiguous
        return unambiguous | (probabilities >= self.sure_probability)

    def decided(
        self,
        nil: np.ndarray,
        mentions: Sequence[MentionInContext],
        first: np.ndarray,
        probabilities: np.ndarray | None,
    ) -> np.ndarray:
        """Return which of n mentions are NIL, bool [n].

        Args:
            nil: bool [n], what the threshold says.
            mentions: The mentions.
            first: int64 [n], the numbers of their first candidates, -1 for none.
            probabilities: As ``Links.probabilities``.
        """
        if self.sure_probability is None or not nil.any():
            return nil
        doubtful = np.flatnonzero(nil)  # names are looked up for these alone: they are few
        first, asked = first[doubtful], [mentions[i] for i in doubtful]
        of_first = None
        if probabilities is not None:
            of_first = np.where(first >= 0, probabilities[doubtful, 0], np.nan)
        unambiguous = unambiguous_owners(self.kb, asked, first[:, None])[:, 0]
        decided = nil.copy()
        decided[doubtful] = ~self.is_sure(unambiguous, of_first)
        return decided


def is_nil(best_scores: Sequence[float] | np.ndarray, threshold: float | None) -> np.ndarray:
    """Decide for each of n mentions whether it is NIL by a threshold, bool [n].

    A mention is NIL if its score is below the threshold. A mention without a candidate is NIL under
    any threshold. Without a threshold no mention is NIL.

    Without a learnt ranking the score is the retriever's best, also where a reranker or exact names
    order the candidates: a reranker compares candidates with each other and does not say how good the
    best of them is. With a ranking it is the probability that a candidate is right.

    Args:
        best_scores: Float [n], as ``Links.nil_score``: -inf for a mention without a candidate, inf for
            one that must not be NIL.
        threshold: The NIL threshold of the linker, or None.
    """
    best = np.asarray(best_scores, dtype=np.float64)
    return np.zeros(best.shape, dtype=bool) if threshold is None else best < threshold
