"""What the trainers of a retriever have in common: mentions are trained against proxies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import PelError
from ..linking.retriever import Retriever
from ..models.losses import ScoreLoss, Targets
from ..models.pair_loss import MentionPairLoss
from ..reading.gold_mention import GoldMention
from .mention_views import MaskAndReplace, check_views
from .negatives import Batch, Row, Sampler
from .row_pool import RowPool
from .trainer import StepLoss, Trainer


class ProxyTrainer(Trainer):
    """Base of the trainers of a retriever. A subclass defines where the proxies' vectors are from,
    in ``proxy_loss``.

    Args:
        retriever: the bi-encoder that is trained.
        pool: chooses the rows of the KB that mentions are trained against.
        loss: compares the mentions' vectors with those of the proxies; None: mentions are compared
            with each other alone.
        negatives: chooses the negatives of a batch from the pool.
        rng: the generator for everything that is drawn.
        pair_loss: compares the mentions of a batch with each other as well; None: it does not.
        views: what is read in place of the mentions; None: the mentions as they are. The proxies
            are chosen by the mentions as they are.

    Raises:
        PelError: there are views, but mentions are not read one by one; or there is no loss over
            proxies, and nothing else trains the encoder of entities.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: RowPool,
        loss: ScoreLoss | None,
        negatives: Sampler,
        rng: np.random.Generator,
        *,
        pair_loss: MentionPairLoss | None = None,
        views: MaskAndReplace | None = None,
    ):
        check_views(views, retriever)
        if loss is None and (pair_loss is None or len(retriever.model.layers) > 1):
            raise PelError(
                "without a loss over proxies, nothing trains the encoder of entities",
                'give a "loss"; or a "pair_loss", with "shared" of the model set to true',
            )
        super().__init__(retriever.model, rng)
        self.retriever = retriever
        self.pool = pool
        self.loss = loss
        self.negatives = negatives
        self.pair_loss = pair_loss
        self.views = views

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
        mentions = self.mentions_to_encode(mentions)
        vectors, backprop_mentions = self.encode_mentions(mentions)
        loss, d_vectors = StepLoss(0.0, 0.0), np.zeros_like(vectors)
        if self.loss is not None:
            loss, d_vectors = self.proxy_loss(vectors, *self.choose_rows(mentions, vectors))
        loss, d_vectors = self.with_pairs(loss, d_vectors, vectors, mentions)
        backprop_mentions(d_vectors)
        return loss

    def with_pairs(
        self,
        loss: StepLoss,
        d_vectors: np.ndarray,
        vectors: np.ndarray,
        mentions: Sequence[GoldMention],
    ) -> tuple[StepLoss, np.ndarray]:
        """Add the loss over pairs of mentions, if there is one, and its gradient.

        Args:
            loss: the loss without it.
            d_vectors: its gradient with respect to the mentions, float32 [n, d].
            vectors: the mentions, float32 [n, d].
            mentions: the same, with their entities.
        """
        if self.pair_loss is None:
            return loss, d_vectors
        d_pairs, of_pairs = self.pair_loss(vectors, [mention.golds for mention in mentions])
        return loss._replace(clean=loss.clean + of_pairs), d_vectors + d_pairs

    def proxy_loss(
        self, vectors: np.ndarray, rows: list[Row], targets: Targets
    ) -> tuple[StepLoss, np.ndarray]:
        """Compare mentions with proxies, and add the gradients of what encodes the proxies.

        Args:
            vectors: the mentions, float32 [n, d].
            rows: the proxies.
            targets: which proxies are a positive or a negative of which mention.

        Returns:
            The losses, and the gradient of their sum with respect to the mentions, float32 [n, d].
        """
        raise NotImplementedError

    def mentions_to_encode(self, mentions: Sequence[GoldMention]) -> Sequence[GoldMention]:
        """The mentions of a batch that are encoded.

        All of them, if a document is read once for all its mentions. Otherwise one for each name
        of an entity in a document.
        """
        return mentions if self.retriever.reads_documents else self._one_of_each(mentions)

    def encode_mentions(
        self, mentions: Sequence[GoldMention]
    ) -> tuple[np.ndarray, Callable[[np.ndarray], object]]:
        """Encode the mentions, or other views of them.

        Returns:
            Their vectors, float32 [n, d], and a function that takes the gradient with respect to
            these, float32 [n, d], back to the weights of the mention tower.
        """
        self._counts.mention_inputs += len(mentions)
        read = [mention.context for mention in mentions]
        if self.views is not None:
            read = self.views(mentions, self.pool.kb, self.rng)
        inputs = self.retriever.mention_inputs(read)
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

    def state(self) -> dict[str, Any]:
        """As for all trainers, and what the loss took from the first batch."""
        return {**super().state(), "loss": self.loss.state() if self.loss else {}}

    def restore(self, state: dict[str, Any]) -> None:
        if self.loss:
            self.loss.restore(state["loss"])
        super().restore(state)
