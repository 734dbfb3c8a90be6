"""Training of the mention tower alone, against the vectors that the KB has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..architectures import encoder_of
from ..linking.retriever import Retriever
from ..models.losses import ScoreLoss, Targets
from .negatives import Row, Sampler
from .proxy_trainer import ProxyTrainer
from .stored_pool import StoredPool
from .trainer import StepLoss


class MentionTrainer(ProxyTrainer):
    """Trains the mention tower. The entity tower, and the KB that it embedded, do not change.

    A step encodes mentions only. The vectors of its proxies are read from the KB, and hard
    negatives are searched in the whole KB under the present weights.

    Args:
        retriever, loss, negatives, rng, **more: see ``ProxyTrainer``.
        pool: chooses rows, and has their vectors.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: StoredPool,
        loss: ScoreLoss | None,
        negatives: Sampler,
        rng: np.random.Generator,
        **more: Any,
    ):
        super().__init__(retriever, pool, loss, negatives, rng, **more)
        self._freeze_entities()

    def proxy_loss(
        self, vectors: np.ndarray, rows: list[Row], targets: Targets
    ) -> tuple[StepLoss, np.ndarray]:
        (d_vectors, _), loss = self.loss((vectors, self.pool.vectors(rows)), targets)
        return StepLoss(loss, 0.0), d_vectors

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._freeze_entities()  # weights that were read from a checkpoint are new ones

    def _freeze_entities(self) -> None:
        """Keep the entity tower from decaying: between processes, no gradient counts as zeros."""
        encoder_of(self.retriever.entity_tower).requires_grad_(False)
