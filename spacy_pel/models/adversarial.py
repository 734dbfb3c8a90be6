"""The Fast Gradient Sign Method on the entity encoder's input embeddings (PEL, section 4.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

import numpy as np


class FGSM:
    """An adversarial regulariser that makes positives and negatives harder without mining.

    The input embeddings z of each proxy take one step of size epsilon. The loss of the perturbed
    proxies P_adv is added to the clean loss:

        x_adv  = x  + epsilon * sign(gradient of the loss by x)         (Eq. 5, FGSM in general)
        z-_adv = z- + epsilon * sign(gradient of s(m, e-) by z-)        (Eq. 6, for a negative)
        z+_adv = z+ - epsilon * sign(gradient of s(m, e+) by z+)        (Eq. 7, for the positive)
        L(m, P) + lambda * L(m, P_adv)                                  (Eq. 8)

    The loss grows with the score of a negative and falls with the score of a positive. So Eq. 6 and
    Eq. 7 are both Eq. 5 for the loss of the mention, and the backward pass of the clean loss gives the
    gradient. A proxy of several mentions is perturbed once, by Eq. 5 for the loss of the batch.

    Args:
        epsilon: The size of the step.
        weight: The weight of the adversarial loss (lambda in Eq. 8).
    """

    def __init__(self, epsilon: float = 0.01, weight: float = 1.0):
        self.epsilon = epsilon
        self.weight = weight

    def perturbation(self, gradient: np.ndarray) -> np.ndarray:
        """Return the step of Eq. 5 for the gradient of the loss, float32 [t, d]."""
        step: np.ndarray = self.epsilon * np.sign(gradient)
        return step
