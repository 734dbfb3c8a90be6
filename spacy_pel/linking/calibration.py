"""What ``pel calibrate`` fits to the scores of a linker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

_SHOWN = 10  # labels in a message


class Calibration(NamedTuple):
    """Platt scaling: a sigmoid gives the probability that the best candidate is right.

    It looks at the candidate's score, and at the margin by which that is above the next one. A high
    score says that the mention is known; a small margin, as for an acronym without context, says
    that it may be another entity all the same.

    Attributes:
        slope: What the score is multiplied by.
        intercept: What is added to the product.
        reranked: The number of candidates that were reranked when it was fitted; 0 if none were,
            and the scores are the retriever's. The fit applies only while the linker reranks this
            number.
        margin_slope: What the margin is multiplied by.
        labels: How many mentions of each label it was fitted on. None if that was not kept, as in
            pipelines of before.
    """

    slope: float
    intercept: float
    reranked: int = 0
    margin_slope: float = 0.0
    labels: Mapping[str, int] | None = None

    def probabilities(self, scores: np.ndarray, margins: np.ndarray | float = 0.0) -> np.ndarray:
        """The probabilities, float64 [n], of the best candidates' scores and ``margins``.

        A score of -inf stands for no candidate.
        """
        logits = self.slope * np.asarray(scores, dtype=np.float64) + self.intercept
        logits = logits + self.margin_slope * np.asarray(margins, dtype=np.float64)
        return (1 + np.tanh(logits / 2)) / 2  # a sigmoid that does not overflow

    def unknown(self, labels: Iterable[str]) -> list[str]:
        """Those of the labels that no mention had that it was fitted on, ignoring case, sorted.

        None of them if it knows no label at all: then labels are named in another way, and say
        nothing about the mentions.
        """
        known = {label.casefold() for label in self.labels or ()}
        labels = set(labels)
        unknown = {label for label in labels if label.casefold() not in known}
        return sorted(unknown) if unknown != labels else []

    @property
    def fitted_on(self) -> str:
        """The labels with their counts, the most frequent first."""
        if self.labels is None:
            return "labels that were not kept"
        labels = sorted(self.labels.items(), key=lambda pair: (-pair[1], pair[0]))
        shown = ", ".join(f"{label} ({count:,})" for label, count in labels[:_SHOWN])
        return f"{shown} and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else shown


def margins(ranking_scores: np.ndarray) -> np.ndarray:
    """How far the first candidate's score is above the best of the others, float64 [n].

    It is below 0 where an exact name put the first candidate before one with a higher score, and 0
    where there are not two candidates.

    Args:
        ranking_scores: Float [n, k], the scores that order the candidates; -inf for no candidate.
    """
    scores = np.asarray(ranking_scores, dtype=np.float64)
    others = scores[:, 1:].max(axis=1, initial=-np.inf)
    two = np.isfinite(scores[:, 0]) & np.isfinite(others)
    return np.where(two, scores[:, 0], 0) - np.where(two, others, 0)


class FittedWeight(NamedTuple):
    """The fitted weight of something that is added to a score."""

    value: float  # what the cross-encoder's score is multiplied by, or what an exact name adds
    # The number of candidates that were reranked when it was fitted, as in ``Calibration``.
    reranked: int = 0
