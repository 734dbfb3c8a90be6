"""Training of the mention tower alone, against the vectors that the KB has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..architectures import encoder_of
from ..linking.retriever import Retriever
from ..models.losses import ScoreLoss
from ..reading.gold_mention import GoldMention
from .negatives import Sampler
from .proxy_trainer import ProxyTrainer
from .stored_pool import StoredPool
from .trainer import StepLoss


class MentionTrainer(ProxyTrainer):
    """Trains the mention tower. The entity tower, and the KB that it embedded, do not change.

    A step encodes mentions only. The vectors of its proxies are read from the KB, and hard
    negatives are searched in the whole KB under the present weights.

    Args:
        retriever, loss, negatives, rng: see ``ProxyTrainer``.
        pool: chooses rows, and has their vectors.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: StoredPool,
        loss: ScoreLoss,
        negatives: Sampler,
        rng: np.random.Generator,
    ):
        super().__init__(retriever, pool, loss, negatives, rng)
        self._freeze_entities()

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
        mentions = self.mentions_to_encode(mentions)
        vectors, backprop_mentions = self.encode_mentions(mentions)
        rows, targets = self.choose_rows(mentions, vectors)
        (d_vectors, _), loss = self.loss((vectors, self.pool.vectors(rows)), targets)
        backprop_mentions(d_vectors)
        return StepLoss(loss, 0.0)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._freeze_entities()  # weights that were read from a checkpoint are new ones

    def _freeze_entities(self) -> None:
        """Keep the entity tower from decaying: between processes, no gradient counts as zeros."""
        encoder_of(self.retriever.entity_tower).requires_grad_(False)
