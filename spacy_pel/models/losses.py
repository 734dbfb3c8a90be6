"""Losses over the scores of mentions against proxies.

A loss is called as thinc's losses are: ``(gradients, value) = loss((mentions, entities), targets)``.
A new one is a subclass that defines ``of_scores``, and a line in ``registry.py``.
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

_NONE = -1e30  # score of what is no negative: -inf makes gradients NaN where a mention has none


class Targets(NamedTuple):
    """What each of n mentions should think of each of r proxies.

    positive: int64 [n], the column of the mention's positive.
    negatives: bool [n, r], true where the proxy is one of the mention's negatives P-.
    """

    positive: np.ndarray
    negatives: np.ndarray


class ScoreLoss:
    """Base of the losses: scores are inner products (cosines, if the vectors have length 1)."""

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """Loss of each mention, [n].

        positive: s(m, e+), [n]. negatives: s(m, e-), [n, r], -inf where it is no negative.
        """
        raise NotImplementedError

    def __call__(
        self, vectors: tuple[np.ndarray, np.ndarray], targets: Targets
    ) -> tuple[tuple[np.ndarray, np.ndarray], float]:
        """Gradients with respect to both sides' vectors, and the mean loss over the mentions.

        vectors: mentions, float32 [n, d], and entities, float32 [r, d].
        """
        mentions, entities = (torch.tensor(v, requires_grad=True) for v in vectors)
        loss = self._mean(mentions @ entities.T, targets)
        gradients = torch.autograd.grad(loss, (mentions, entities))
        return tuple(g.numpy() for g in gradients), loss.item()

    def on_scores(self, scores: np.ndarray, targets: Targets) -> tuple[np.ndarray, float]:
        """Gradient with respect to the scores, float32 [n, r], and the mean loss."""
        leaf = torch.tensor(scores, requires_grad=True)
        loss = self._mean(leaf, targets)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient.numpy(), loss.item()

    def _mean(self, scores: Tensor, targets: Targets) -> Tensor:
        """Mean loss over the mentions."""
        positive = scores.gather(1, torch.as_tensor(targets.positive)[:, None]).squeeze(1)
        is_negative = torch.as_tensor(targets.negatives)
        return self.of_scores(positive, scores.masked_fill(~is_negative, -torch.inf)).mean()

    def get_grad(self, vectors, targets: Targets) -> tuple[np.ndarray, np.ndarray]:
        """Gradients with respect to the mention and the entity vectors."""
        return self(vectors, targets)[0]

    def get_loss(self, vectors, targets: Targets) -> float:
        """Mean loss over the mentions."""
        return self(vectors, targets)[1]


class ProxyLoss(ScoreLoss):
    """Proxy-based loss (PEL, Eq. 3; its gradient is Eq. 4).

        log(1 + exp(-alpha (s+ - delta))) + log(1 + sum exp(alpha (s- + delta)))

    Positive and negatives are decoupled: an easy negative does not silence the positive's pull.
    Made for cosine scores.

    alpha: how strongly positive and negatives pull and push. delta: the margin.
    """

    def __init__(self, alpha: float = 32.0, delta: float = 0.0):
        self.alpha = alpha
        self.delta = delta

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        pull = softplus(-self.alpha * (positive - self.delta))
        # The 1 of log(1 + sum ...) as one more column, exp(0): stable, and right without negatives.
        one = torch.zeros_like(positive).unsqueeze(1)
        push = torch.cat([one, self.alpha * (negatives + self.delta)], dim=1).logsumexp(1)
        return pull + push


class CrossEntropyLoss(ScoreLoss):
    """Softmax cross-entropy (PEL, Eq. 1; its gradient is Eq. 2).

    The paper scores it with the dot product: use it with ``similarity = "dot"``.

    scale: what scores are multiplied by, for cosines (the inverse of a temperature).
    """

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        # As log(1 + exp(...)): where the positive is far ahead its gradient is small, and not 0 as
        # that of a logsumexp over all scores, so that FGSM has its sign (Eq. 7).
        hardest = (self.scale * negatives).clamp(min=_NONE).logsumexp(1)
        return softplus(hardest - self.scale * positive)
