"""Training of both towers of a retriever against entities and other mentions (ArboEL)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import PelError
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import EdgeLoss, ScoreLoss
from ..reading.gold_mention import GoldMention
from .gold_edges import Arborescence
from .negatives import Sampler
from .proxy_pool import ProxyPool
from .retriever_trainer import RetrieverTrainer
from .trainer import StepLoss


class CoreferenceTrainer(RetrieverTrainer):
    """Trains both towers. Mentions are positives and negatives as well as entities.

    A step encodes the mentions of its batch, and the other mentions that are their positives or
    negatives, in one pass of the mention tower. FGSM perturbs entities alone.

    Args:
        retriever, loss, fgsm, negatives, rng, **more: see ``RetrieverTrainer``. The negatives are the
            entities among the negatives.
        pool: has an index of the training mentions.
        coreference: chooses the mentions.

    Raises:
        PelError: mentions are not read one by one, there is no loss, or FGSM would perturb each pair.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: ProxyPool,
        loss: ScoreLoss | None,
        fgsm: FGSM | None,
        negatives: Sampler,
        rng: np.random.Generator,
        *,
        coreference: Arborescence,
        **more: Any,
    ):
        if retriever.reads_documents:
            raise PelError(
                "mentions that are read together in their document cannot be trained against "
                "mentions of other documents",
                'set "coreference" to null, or train a spacy-pel.BiEncoder.v1',
            )
        if loss is None:
            raise PelError(
                "training against the mentions of gold clusters needs a loss",
                'give a "loss", or set "coreference" to null',
            )
        if fgsm is not None and fgsm.per_pair:
            raise PelError(
                "FGSM cannot perturb pairs of two mentions",
                'set "per_pair" of the regularizer to false, or "coreference" to null',
            )
        super().__init__(retriever, pool, EdgeLoss(loss), fgsm, negatives, rng, **more)
        self.coreference = coreference

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
        batch = self.mentions_to_encode(mentions)
        index = self.pool.mentions
        edges = self.coreference(index.numbers_of(batch), self.pool, self.rng)
        read = [*batch, *(index.mentions[number] for number in edges.others)]
        vectors, backprop_mentions = self.encode_mentions(read)
        chosen = self.choose_rows(batch, vectors[: len(batch)])
        loss, d_vectors = self.proxy_loss(vectors, *edges.beside(*chosen))
        loss, d_vectors = self.with_pairs(loss, d_vectors, vectors, read)
        backprop_mentions(d_vectors)
        return loss
