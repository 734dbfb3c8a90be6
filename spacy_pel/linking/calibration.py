"""What ``pel calibrate`` fits to the scores of a linker."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Calibration(NamedTuple):
    """Platt scaling: a sigmoid of the best candidate's score is the probability that it is right.

    Attributes:
        slope: What the score is multiplied by.
        intercept: What is added to the product.
        reranked: The number of candidates that were reranked when it was fitted; 0 if none were,
            and the scores are the retriever's. The fit applies only while the linker reranks this
            number.
    """

    slope: float
    intercept: float
    reranked: int = 0

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Turn scores into probabilities: float64, in the shape of the scores."""
        logits = self.slope * np.asarray(scores, dtype=np.float64) + self.intercept
        return (1 + np.tanh(logits / 2)) / 2  # a sigmoid that does not overflow


class FittedWeight(NamedTuple):
    """The fitted weight of something that is added to a score.

    Attributes:
        value: The weight. It multiplies the cross-encoder's score, or it is what an exact name
            adds to a candidate's score.
        reranked: The number of candidates that were reranked when it was fitted, as in
            ``Calibration``.
    """

    value: float
    reranked: int = 0
