"""Adversarial training with a perturbed proxy for each pair of a mention and a proxy (PEL, Eq. 6-8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..architectures import Tower
from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss, Targets
from ..reading.text_inputs import TextInputs, TokenIds
from .adversarial_inputs import clean_inputs, perturbed_inputs
from .row_groups import row_groups
from .trainer import StepLoss


class _Group(NamedTuple):
    """Some mentions of a batch, and their pairs.

    mentions: float32 [n, d]. targets: of r proxies. owners, columns: the mention and the proxy of each
    pair, int64 [p].
    """

    mentions: np.ndarray
    targets: Targets
    owners: np.ndarray
    columns: np.ndarray


class PairPasses:
    """Both passes of the proxies of a batch, where each pair of mention and proxy is an input.

    A pair's score is in the loss of its mention alone. So the sign of the gradient of the loss by
    the pair's input is that of Eq. 6 for a negative, and of Eq. 7 for a positive. The weights get the
    gradients of Eq. 8.

    Args:
        tower: encodes proxies.
        width: the width of an input embedding.
        loss: compares the mentions with their proxies.
        fgsm: makes the perturbations.
    """

    def __init__(self, tower: Tower, width: int, loss: ScoreLoss, fgsm: FGSM):
        self.tower = tower
        self.width = width
        self.loss = loss
        self.fgsm = fgsm

    def backpropagated(
        self, tokens: Sequence[TokenIds], mentions: np.ndarray, targets: Targets
    ) -> tuple[StepLoss, np.ndarray]:
        """Encode the pairs twice, and add the gradients of both losses to those of the weights.

        Args:
            tokens: the proxies, r of them.
            mentions: the vectors of the mentions, float32 [n, d].
            targets: which proxies are a positive or a negative of which mention.

        Returns:
            The losses, and the gradient of their sum with respect to the mentions, float32 [n, d].
        """
        is_pair = pairs_of(targets)
        total, d_mentions = np.zeros(2), np.zeros_like(mentions)
        for rows in row_groups(np.array([len(t.ids) for t in tokens]) * is_pair):
            group = _Group(
                mentions[rows],
                Targets(targets.positive[rows], targets.negatives[rows]),
                *np.nonzero(is_pair[rows]),
            )
            own = [tokens[column] for column in group.columns]
            share = len(rows) / len(mentions)
            inputs = clean_inputs(own, self.width, self.fgsm)
            clean, d_clean, d_inputs = self._pass(inputs, group, share)
            inputs = perturbed_inputs(own, d_inputs, self.fgsm)
            adversarial, d_adversarial, _ = self._pass(inputs, group, share * self.fgsm.weight)
            d_mentions[rows] = d_clean + d_adversarial
            total += clean, adversarial
        return StepLoss(*total.tolist()), d_mentions

    def _pass(
        self, inputs: TextInputs, group: _Group, weight: float
    ) -> tuple[float, np.ndarray, list[np.ndarray]]:
        """The loss times the weight, and its gradients by the mentions and by the pairs' inputs."""
        mentions, targets, owners, columns = group
        vectors, backprop = self.tower.begin_update(inputs)
        scores = np.zeros(targets.negatives.shape, dtype=np.float32)
        scores[owners, columns] = (mentions[owners] * vectors).sum(axis=1)
        d_scores, loss = self.loss.on_scores(scores, targets)
        d_pairs = np.float32(weight) * d_scores[owners, columns][:, None]
        d_mentions = np.zeros_like(mentions)
        np.add.at(d_mentions, owners, d_pairs * vectors)
        return weight * loss, d_mentions, backprop(d_pairs * mentions[owners])


def pairs_of(targets: Targets) -> np.ndarray:
    """Whether a proxy is the positive or a negative of a mention, bool [n, r]."""
    is_pair = targets.negatives.copy()
    is_pair[np.arange(len(is_pair)), targets.positive] = True
    return is_pair
