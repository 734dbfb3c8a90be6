"""A loss over pairs of mentions, beside the loss over mentions and proxies."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import softplus

# A score for what is no negative; with -inf, gradients are NaN where there is no negative.
_NO_NEGATIVE = -1e30


class MentionPairLoss:
    """InfoNCE over the mentions of a batch that mean one entity (KRISSBERT, Eq. 1 and 2).

        -log(exp(scale * c_i c_j) / (exp(scale * c_i c_j) + sum over k of exp(scale * c_i c_k)))

    c_i and c_j are mentions of one entity, and the c_k are all mentions of other entities. The loss
    is the mean over the mentions c_i that have such a c_j, and for each of them over its c_j. With
    two mentions of each entity that is Eq. 2. Where no two mentions share an entity it is 0.

    Args:
        scale: What the inner products are multiplied by: the inverse of the temperature. The paper
            has 1 and no cosines. 32 suits cosines.
        weight: The factor of this loss beside the loss over proxies (alpha / beta in the paper: 1).
    """

    def __init__(self, scale: float = 1.0, weight: float = 1.0):
        self.scale = scale
        self.weight = weight

    def __call__(
        self, vectors: np.ndarray, golds: Sequence[tuple[int, ...]]
    ) -> tuple[np.ndarray, float]:
        """The gradient by the vectors, float [n, d], in their dtype, and the loss, times the weight.

        golds: the entities that each mention may mean. Two mentions are a pair if they share one.
        """
        is_pair = torch.as_tensor(_pairs(golds))
        mentions = torch.tensor(vectors, requires_grad=True)
        scores = self.scale * mentions @ mentions.T
        is_negative = ~is_pair & ~torch.eye(len(golds), dtype=torch.bool)
        hardest = scores.masked_fill(~is_negative, _NO_NEGATIVE).logsumexp(1, keepdim=True)
        losses = softplus(hardest - scores).masked_fill(~is_pair, 0)
        n_pairs = is_pair.sum(1)
        total = (losses.sum(1) / n_pairs.clamp(min=1)).sum() / (n_pairs > 0).sum().clamp(min=1)
        (gradient,) = torch.autograd.grad(self.weight * total, mentions)
        return gradient.numpy(), self.weight * total.item()


def _pairs(golds: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Which mentions share an entity, bool [n, n]; none does with itself."""
    columns = {number: column for column, number in enumerate({n for one in golds for n in one})}
    means = np.zeros((len(golds), len(columns)), dtype=np.float32)
    for row, one in enumerate(golds):
        means[row, [columns[number] for number in one]] = 1
    pairs = means @ means.T > 0
    np.fill_diagonal(pairs, False)
    return pairs
