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
    """What decides about NIL beside the threshold."""

    kb: KnowledgeBase  # where names are looked up
    # A mention is not NIL if its first candidate alone has it as a name, or is right with this
    # probability at least. So NIL never contradicts the probability that is shown. None: the threshold
    # decides.
    sure_probability: float | None

    def decided(
        self,
        nil: np.ndarray,
        mentions: Sequence[MentionInContext],
        first: np.ndarray,
        probabilities: np.ndarray | None,
    ) -> np.ndarray:
        """Tell which of n mentions are NIL, bool [n], where ``nil`` is what the threshold says.

        ``first``, int64 [n], are the numbers of their first candidates, -1 for none; ``probabilities`` are
        those of ``Links``.
        """
        nil = nil.copy()
        if self.sure_probability is not None and nil.any():
            doubtful = np.flatnonzero(nil)  # names are looked up for these alone: they are few
            asked = [mentions[i] for i in doubtful]
            nil[doubtful] = ~unambiguous_owners(self.kb, asked, first[doubtful, None])[:, 0]
        if probabilities is not None and self.sure_probability is not None:
            nil &= ~((first >= 0) & (probabilities[:, 0] >= self.sure_probability))
        return nil


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
