"""What the trainers of a retriever have in common: mentions are trained against proxies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..linking.retriever import Retriever
from ..models.losses import ScoreLoss, Targets
from ..reading.gold_mention import GoldMention
from .negatives import Batch, Row, Sampler
from .row_pool import RowPool
from .trainer import Trainer


class ProxyTrainer(Trainer):
    """Base of the trainers of a retriever. A subclass defines where the proxies' vectors are from.

    Args:
        retriever: the bi-encoder that is trained.
        pool: chooses the rows of the KB that mentions are trained against.
        loss: compares the mentions' vectors with those of the proxies.
        negatives: chooses the negatives of a batch from the pool.
        rng: the generator for everything that is drawn.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: RowPool,
        loss: ScoreLoss,
        negatives: Sampler,
        rng: np.random.Generator,
    ):
        super().__init__(retriever.model, rng)
        self.retriever = retriever
        self.pool = pool
        self.loss = loss
        self.negatives = negatives

    def mentions_to_encode(self, mentions: Sequence[GoldMention]) -> Sequence[GoldMention]:
        """The mentions of a batch that are encoded.

        All of them, if a document is read once for all its mentions. Otherwise one for each name
        of an entity in a document.
        """
        return mentions if self.retriever.reads_documents else self._one_of_each(mentions)

    def encode_mentions(
        self, mentions: Sequence[GoldMention]
    ) -> tuple[np.ndarray, Callable[[np.ndarray], object]]:
        """Encode the mentions.

        Returns:
            Their vectors, float32 [n, d], and a function that takes the gradient with respect to
            these, float32 [n, d], back to the weights of the mention tower.
        """
        self._counts.mention_inputs += len(mentions)
        inputs = self.retriever.mention_inputs([mention.context for mention in mentions])
        return self.retriever.mention_tower.begin_update(inputs)

    def choose_rows(
        self, mentions: Sequence[GoldMention], vectors: np.ndarray
    ) -> tuple[list[Row], Targets]:
        """Choose the rows of the KB that the mentions are trained against.

        Args:
            mentions: the mentions that were encoded.
            vectors: their vectors, float32 [n, d], by which hard negatives are found.

        Returns:
            The rows, and which of them are a positive or a negative of which mention.
        """
        positives = self.pool.positive_rows(
            [mention.surface for mention in mentions],
            [mention.golds[0] for mention in mentions],
            self.rng,
        )
        batch = Batch(positives, [frozenset(mention.golds) for mention in mentions], vectors)
        return self.negatives(batch, self.pool, self.rng)
