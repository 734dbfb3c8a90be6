"""Fast Gradient Sign Method on the entity encoder's input embeddings (PEL, section 4.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Sequence

import numpy as np


class FGSM:
    """Adversarial regulariser: harder positives and negatives without mining (Eq. 5-8).

    epsilon: the size of the perturbation. weight: lambda, the share of the adversarial loss.

    Eq. 6 moves a negative up the gradient of its score, Eq. 7 a positive down. Since the loss grows
    with a negative's score and falls with a positive's, both are one step up the gradient of the
    loss (Eq. 5), which the backward pass of the clean loss gives without further work. Where one
    proxy serves several mentions of a batch, the mentions count as their loss weighs them.
    """

    def __init__(self, epsilon: float = 0.01, weight: float = 1.0):
        self.epsilon = epsilon
        self.weight = weight

    def perturbations(self, gradients: Sequence[np.ndarray]) -> list[np.ndarray]:
        """epsilon * sign(gradient), for each input's gradient, float32 [t, d]."""
        return [self.epsilon * np.sign(g) for g in gradients]
