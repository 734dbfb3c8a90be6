"""The Fast Gradient Sign Method on the entity encoder's input embeddings (PEL, section 4.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Sequence

import numpy as np


class FGSM:
    """An adversarial regulariser: it makes positives and negatives harder without mining them.

    The input embeddings z of each proxy take one step of size epsilon, and the loss of the proxies
    that result, P_adv, is added to the clean loss:

        x_adv  = x  + epsilon * sign(gradient of the loss by x)         (Eq. 5, FGSM in general)
        z-_adv = z- + epsilon * sign(gradient of s(m, e-) by z-)        (Eq. 6, for a negative)
        z+_adv = z+ - epsilon * sign(gradient of s(m, e+) by z+)        (Eq. 7, for the positive)
        L(m, P) + lambda * L(m, P_adv)                                  (Eq. 8)

    The loss grows with a negative's score and falls with a positive's. So Eq. 6 and Eq. 7 are both
    Eq. 5 for the loss of the mention, and the backward pass of the clean loss gives that gradient.
    Where one proxy serves several mentions of a batch, its perturbation is Eq. 5 for the loss of the
    batch. With ``per_pair`` each pair of a mention and a proxy has a perturbed proxy of its own:
    Eq. 6 and Eq. 7 to the letter, at the price of encoding each pair.

    Args:
        epsilon: The size of the step.
        weight: The lambda of Eq. 8, the weight of the adversarial loss.
        per_pair: Whether a retriever's proxy is perturbed for each of its mentions, or once for all.
            The inputs of a reranker are pairs in any case.
    """

    def __init__(self, epsilon: float = 0.01, weight: float = 1.0, per_pair: bool = False):
        self.epsilon = epsilon
        self.weight = weight
        self.per_pair = per_pair

    def perturbations(self, gradients: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A step of epsilon (Eq. 5) by each input's gradient of the loss, float32 [t, d]."""
        return [self.epsilon * np.sign(g) for g in gradients]
