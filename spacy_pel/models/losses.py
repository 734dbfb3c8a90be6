"""Losses over the scores of mentions against proxies.

Call a loss like thinc's losses: ``gradients, value = loss((mentions, entities), targets)``. A new loss is
a subclass of ``ScoreLoss`` that defines ``of_scores``, and a line in ``registry.py``.

In the equations m is a mention, e+ its positive proxy, P- the set of its negative proxies e-, and s the
score of two vectors: their inner product, which is the cosine if they have length 1.
"""

# No "from __future__ import annotations": the registry reads the types of the arguments.

import logging
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

logger = logging.getLogger(__name__)

# The score of a proxy that is no negative. With -inf, the gradients of a mention without negatives are NaN.
_NO_NEGATIVE = -1e30


class Targets(NamedTuple):
    """The positive and the negative proxies of n mentions, among r proxies.

    Attributes:
        positive: int64 [n], the column of the positive proxy e+ of each mention.
        negatives: bool [n, r], true where the proxy is one of the mention's negatives P-.
    """

    positive: np.ndarray
    negatives: np.ndarray


class ScoreLoss:
    """Base class of the losses over scores. A subclass defines ``of_scores``."""

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """Return the loss of each mention, float [n].

        Args:
            positive: Float [n], the scores s(m, e+).
            negatives: Float [n, r], the scores s(m, e-); -inf where the proxy is no negative.
        """
        raise NotImplementedError

    def __call__(
        self, vectors: tuple[np.ndarray, np.ndarray], targets: Targets
    ) -> tuple[tuple[np.ndarray, np.ndarray], float]:
        """Return the gradients of the mean loss, in the dtypes of the vectors, and the mean loss.

        Targets may also name mentions as proxies (ArboEL). Then there are n + m mentions. The first n
        have targets, and the columns of the targets are the r proxies followed by the n + m
        mentions.

        Args:
            vectors: Those of the mentions, float [n, d] or [n + m, d], and of the proxies, float [r, d].
            targets: The positives and negatives of the n mentions.
        """
        mentions, entities = (torch.tensor(v, requires_grad=True) for v in vectors)
        sources = entities
        if targets.negatives.shape[1] > len(entities):
            sources = torch.cat([entities, mentions])
        loss = self._mean(mentions[: len(targets.positive)] @ sources.T, targets)
        d_mentions, d_entities = torch.autograd.grad(loss, (mentions, entities))
        return (d_mentions.numpy(), d_entities.numpy()), float(loss.detach())

    def on_scores(self, scores: np.ndarray, targets: Targets) -> tuple[np.ndarray, float]:
        """Return the gradient of the mean loss by scores, float [n, r], and the mean loss."""
        leaf = torch.tensor(scores, requires_grad=True)
        loss = self._mean(leaf, targets)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient.numpy(), float(loss.detach())

    def state(self) -> dict[str, Any]:
        """Return the values learned from the training data, as plain data; {} for most losses."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a ``state``; {} is the state of a new loss."""

    def _mean(self, scores: Tensor, targets: Targets) -> Tensor:
        positive = scores.gather(1, torch.as_tensor(targets.positive)[:, None]).squeeze(1)
        is_negative = torch.as_tensor(targets.negatives)
        return self.of_scores(positive, scores.masked_fill(~is_negative, -torch.inf)).mean()


class ProxyLoss(ScoreLoss):
    """The proxy-based loss (PEL, Eq. 3; gradient in Eq. 4) with an additional bias b.

        log(1 + exp(-alpha * (s(m, e+) - b - delta)))
            + log(1 + sum over e- in P- of exp(alpha * (s(m, e-) - b + delta)))

    The positive and the negatives have separate terms, so easy negatives do not weaken the pull of the
    positive. Use it with cosines (``similarity = "cosine"``).

    b = 0 is the paper's loss. Its gradient by s(m, e+) is -alpha * pull, and its gradients by all
    s(m, e-) sum to alpha * push:

        pull = sigmoid(-alpha * (s(m, e+) - b - delta))
        push = sigmoid(log(sum over e- in P- of exp(alpha * (s(m, e-) - b + delta))))

    Both turn from 0 to 1 within a few 1 / alpha of b. Before training, the cosines of an encoder lie
    close together and far from 0, such as 0.65 for random pairs and 0.77 for correct pairs. With b = 0
    each push is then 1 and each pull 0: positives are not pulled, and all negatives are pushed equally.
    ``bias = "first_batch"`` sets b so that the pulls and the pushes of the first batch have the same
    sum, and keeps it. ``delta`` cannot replace b: it moves the two thresholds apart.

    Args:
        alpha: The steepness of the pull of the positive and the push of the negatives.
        delta: The margin.
        bias: b, or "first_batch"; then the attribute ``bias`` is None until the first batch.
    """

    bias: float | None

    def __init__(
        self, alpha: float = 32.0, delta: float = 0.0, bias: float | Literal["first_batch"] = 0.0
    ):
        self.alpha = alpha
        self.delta = delta
        self._given_bias = None if bias == "first_batch" else float(bias)
        self.bias = self._given_bias

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """Return the loss of each mention. With "first_batch", the first negative scores set the bias."""
        if self.bias is None:
            self.bias = balanced_bias(positive, negatives, self.alpha, self.delta)
            if self.bias is not None:
                logger.info("Pull and push of the proxy-based loss balance at %.4f", self.bias)
        bias = self.bias or 0.0
        pull = softplus(-self.alpha * (positive - bias - self.delta))
        # The 1 of log(1 + sum ...) is one more column, exp(0). This is stable, also without negatives.
        one = torch.zeros_like(positive).unsqueeze(1)
        push = torch.cat([one, self.alpha * (negatives - bias + self.delta)], dim=1).logsumexp(1)
        return pull + push

    def state(self) -> dict[str, Any]:
        return {} if self.bias == self._given_bias else {"bias": self.bias}

    def restore(self, state: dict[str, Any]) -> None:
        self.bias = state.get("bias", self._given_bias)


def centred_proxy_loss(
    alpha: float = 32.0,
    delta: float = 0.0,
    bias: float | Literal["first_batch"] = "first_batch",
) -> ProxyLoss:
    """Make a ``ProxyLoss`` whose default bias is that of the first batch."""
    return ProxyLoss(alpha, delta, bias)


def balanced_bias(
    positive: Tensor, negatives: Tensor, alpha: float, delta: float = 0.0
) -> float | None:
    """Return the b at which the pulls and pushes of a batch have the same sum (``ProxyLoss``).

    The result is None if no mention has a negative.
    """
    positive, negatives = positive.detach().double(), negatives.detach().double()
    if not torch.isfinite(negatives).any():
        return None
    attraction = alpha * (positive - delta)
    repulsion = (alpha * (negatives + delta)).logsumexp(1)
    repulsion = repulsion[torch.isfinite(repulsion)]
    # In steps of alpha * b. 50 beyond all scores, each sigmoid is 0 or 1 to the last digit.
    both = torch.cat([attraction, repulsion])
    low, high = both.min().item() - 50, both.max().item() + 50
    while (high - low) > 1e-6:
        middle = (low + high) / 2
        pull, push = (middle - attraction).sigmoid().sum(), (repulsion - middle).sigmoid().sum()
        low, high = (middle, high) if pull < push else (low, middle)
    return (low + high) / 2 / alpha


class CrossEntropyLoss(ScoreLoss):
    """The softmax cross-entropy (PEL, Eq. 1; gradient in Eq. 2).

        -log(exp(scale * s(m, e+)) / sum over e in P of exp(scale * s(m, e)))

    P is the positive and the negatives. The paper has no scale (1) and scores by the dot product
    (``similarity = "dot"``). Cosines are at most 1: without a scale the loss of a perfect mention with
    64 negatives is above 2.

    Args:
        scale: The factor of the scores, the inverse of a temperature. 32 suits cosines.
    """

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        # As log(1 + exp(...)) the gradient is small where the positive is far ahead. As a logsumexp
        # over all scores it would be 0, and FGSM needs its sign (Eq. 7).
        hardest = (self.scale * negatives).clamp(min=_NO_NEGATIVE).logsumexp(1)
        return softplus(hardest - self.scale * positive)


class PositiveNegativeLoss(CrossEntropyLoss):
    """The softmax with a term for the positive and one for each negative (ArboEL, Eq. 6).

        -log p(e+) - sum over e- in P- of log(1 - p(e-))
        where p(e) = exp(scale * s(m, e)) / sum over e' in P of exp(scale * s(m, e'))

    P and the scale are those of ``CrossEntropyLoss``. The paper writes the sum without the minus and has
    no scale (1).
    """

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        scores = self.scale * torch.cat([positive.unsqueeze(1), negatives], dim=1)
        log_p = scores.clamp(min=_NO_NEGATIVE).log_softmax(1)
        # Only the highest probability can be near 1, where 1 - p loses its digits. Use the sum of the
        # other probabilities there.
        highest = log_p.argmax(1, keepdim=True)
        others = log_p.scatter(1, highest, _NO_NEGATIVE)
        push = -torch.log1p(-others[:, 1:].exp()).sum(1)
        push = push - torch.where(highest.squeeze(1) > 0, others.logsumexp(1), 0)
        return super().of_scores(positive, negatives) + push


class MentionPairLoss:
    """InfoNCE over the mentions of a batch that have the same entity (KRISSBERT, Eq. 1 and 2).

        -log(exp(scale * c_i c_j) / (exp(scale * c_i c_j) + sum over k of exp(scale * c_i c_k)))

    c_i and c_j are mentions of the same entity, and the c_k are all mentions of other entities. The loss
    is the mean over all c_i that have a c_j, each averaged over its c_j. It is 0 if there is no such pair.
    With two mentions per entity this is Eq. 2.

    Args:
        scale: The factor of the inner products, the inverse of the temperature. The paper uses 1 and no
            cosines. 32 suits cosines.
        weight: The weight of this loss relative to the loss over proxies (alpha / beta; paper: 1).
    """

    def __init__(self, scale: float = 1.0, weight: float = 1.0):
        self.scale = scale
        self.weight = weight

    def __call__(
        self, vectors: np.ndarray, golds: Sequence[tuple[int, ...]]
    ) -> tuple[np.ndarray, float]:
        """Return the gradient by the vectors, in their dtype, and the loss, both times the weight.

        Args:
            vectors: float [n, d], the vectors of the mentions.
            golds: The gold entities of each mention. Mentions that share one are a pair.
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
        return gradient.numpy(), self.weight * float(total.detach())


def _pairs(golds: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Return which mentions share an entity, bool [n, n], with a false diagonal."""
    columns = {number: column for column, number in enumerate({n for one in golds for n in one})}
    means = np.zeros((len(golds), len(columns)), dtype=np.float32)
    for row, one in enumerate(golds):
        means[row, [columns[number] for number in one]] = 1
    pairs: np.ndarray = means @ means.T > 0
    np.fill_diagonal(pairs, False)
    return pairs


def summed_loss(scores: np.ndarray, allowed: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the loss of words for which several tags may be correct.

    The loss of a word is minus the log of the summed probability of its allowed tags. A corpus without
    annotations of a label does not say whether a word outside its mentions has that label. There the
    tags of the label are allowed as well as "outside".

    Args:
        scores: float32 [w, t], the scores of the tags of each word.
        allowed: bool [w, t], the tags that may be correct. A word with all tags allowed has no loss.

    Returns:
        The mean loss of a word, and its gradient by the scores, float32 [w, t].
    """
    all_scores = torch.from_numpy(scores).requires_grad_()
    correct = all_scores.masked_fill(~torch.from_numpy(allowed), -torch.inf)
    loss = (all_scores.logsumexp(1) - correct.logsumexp(1)).mean()
    (gradient,) = torch.autograd.grad(loss, all_scores)
    return float(loss.detach()), gradient.numpy()
