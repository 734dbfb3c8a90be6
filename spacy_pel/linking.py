"""The one way to link: mentions -> vectors -> candidates -> is one of them the entity, or none?

Used by the pipeline and evaluation.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol, Sequence

import numpy as np

from .inputs import MentionInContext
from .kb.index import Candidates
from .retriever import Retriever


class Searchable(Protocol):
    """A knowledge base, or an index in memory."""

    def search(self, vectors: np.ndarray, k: int) -> Candidates: ...


class Calibration(NamedTuple):
    """Platt scaling: the probability that a best candidate is right is a sigmoid of its score."""

    slope: float
    intercept: float

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """float64, in the shape of the scores."""
        logits = self.slope * np.asarray(scores, dtype=np.float64) + self.intercept
        return (1 + np.tanh(logits / 2)) / 2  # a sigmoid that does not overflow


class Links(NamedTuple):
    """What linking says of n mentions.

    numbers: int64 [n, k], entity numbers, best first; -1 where there are fewer than k.
    scores: float32 [n, k]; -inf there.
    nil: bool [n], whether the entity is none of these: the KB lacks it.
    probabilities: float64 [n] that the best candidate is right; None without a calibration.
    """

    numbers: np.ndarray
    scores: np.ndarray
    nil: np.ndarray
    probabilities: Optional[np.ndarray]


def link(
    retriever: Retriever,
    index: Searchable,
    mentions: Sequence[MentionInContext],
    k: int,
    *,
    nil_threshold: Optional[float] = None,
    calibration: Optional[Calibration] = None,
) -> Links:
    """The k best entities of each mention, and whether it is NIL.

    nil_threshold: a mention whose best score is below it is NIL, and so is one without a
        candidate; None: no mention is.
    """
    found = index.search(retriever.mention_vectors(mentions), k)
    best = found.scores[:, 0].astype(np.float64)
    nil = np.zeros(len(best), dtype=bool) if nil_threshold is None else best < nil_threshold
    probabilities = None if calibration is None else calibration.probabilities(best)
    return Links(found.numbers, found.scores, nil, probabilities)
