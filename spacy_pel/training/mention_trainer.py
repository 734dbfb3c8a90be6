"""Training of the mentions' tower alone, against the vectors that the KB has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..architectures import TowerInputs, encoder_of
from ..linking.retriever import Retriever
from ..models.losses import ScoreLoss
from ..reading.gold_mention import GoldMention
from .negatives import Sampler
from .objective import StepLoss
from .stored_pool import StoredPool
from .trainer import ProxyTrainer


class MentionTrainer(ProxyTrainer):
    """Trains the mention tower; the entity tower, and the KB that it embedded, stay as they are.

    A step encodes mentions and nothing else, its proxies are looked up, and hard negatives are
    searched in the whole KB under the present weights.
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

    def gradients(self, mentions: Sequence[GoldMention]) -> StepLoss:
        mentions = self.encoded(mentions)
        tokens = self.retriever.mention_tokens([mention.context for mention in mentions])
        vectors, backprop = self.retriever.mention_tower.begin_update(TowerInputs(tokens))
        rows, targets = self.choose_rows(mentions, vectors)
        (d_vectors, _), loss = self.loss((vectors, self.pool.vectors(rows)), targets)
        backprop(d_vectors)
        self.counts.mention_inputs += len(mentions)
        return StepLoss(loss, 0.0)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._freeze_entities()  # weights that were read from a checkpoint are new ones

    def _freeze_entities(self) -> None:
        """Lest it decay: among several processes a missing gradient counts as zeros."""
        encoder_of(self.retriever.entity_tower).requires_grad_(False)
