"""Training on batches of gold mentions: what trainers have in common, and the retriever's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from thinc.api import Model

from ..errors import PelError
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss, Targets
from ..reading.gold_mention import GoldMention
from ..reading.inputs import EntityText
from .counts import Counts
from .memory import release_memory
from .negatives import Batch, Row, Sampler
from .objective import StepLoss, accumulate_gradients
from .proxy_pool import ProxyPool
from .row_pool import RowPool

# Freed memory is given back every so many updates: a few hundred MB, in a tenth of a second.
UPDATES_PER_RELEASE = 16


class Trainer:
    """Adds the gradients of batches of mentions to the weights of a model.

    model: what is trained. rng: draws whatever is drawn. A subclass defines ``gradients``, and
    counts in ``counts`` what it encodes.
    """

    def __init__(self, model: Model, rng: np.random.Generator):
        self.model = model
        self.rng = rng
        self.counts = Counts()
        # The sum over all batches so far.
        self.total_loss = StepLoss(0.0, 0.0)
        self._updates = 0

    def step(self, mentions: Sequence[GoldMention]) -> StepLoss:
        """Accumulate the gradients of one batch. Raises PelError if the loss is not a number."""
        self.counts.mentions += len(mentions)
        step = self.gradients(mentions)
        if not np.isfinite(sum(step)):
            raise PelError(
                f'the loss is {sum(step)} for a batch that begins with "{mentions[0].surface}"',
                "lower the learning rate",
            )
        clean, adversarial = self.total_loss
        self.total_loss = StepLoss(clean + step.clean, adversarial + step.adversarial)
        return step

    def gradients(self, mentions: Sequence[GoldMention]) -> StepLoss:
        """Accumulate the gradients of one batch; gives its loss."""
        raise NotImplementedError

    def _one_of_each(self, mentions: Sequence[GoldMention]) -> list[GoldMention]:
        """The mentions, but one drawn at random where a document repeats a name of an entity.

        Repeats are near-copies: to encode each of them would cost time and teach little.
        """
        groups: dict[tuple, list[GoldMention]] = {}
        for mention in mentions:
            key = (mention.context.text, mention.surface.lower(), mention.golds)
            groups.setdefault(key, []).append(mention)
        return [group[self.rng.integers(len(group))] for group in groups.values()]

    def note_update(self) -> None:
        """Tell the trainer that the weights have changed."""
        self._updates += 1
        if self._updates % UPDATES_PER_RELEASE == 0:
            release_memory()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps besides the weights, as plain data."""
        return {
            "rng": self.rng.bit_generator.state,
            "counts": asdict(self.counts),
            "total_loss": self.total_loss,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state, under the weights of that time."""
        self.rng.bit_generator.state = state["rng"]
        vars(self.counts).update(state["counts"])
        self.total_loss = StepLoss(*state["total_loss"])


class ProxyTrainer(Trainer):
    """Base of those that train a retriever against proxies.

    pool: chooses rows (``RowPool``), and hard ones. A subclass says where their vectors are from.
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

    def encoded(self, mentions: Sequence[GoldMention]) -> Sequence[GoldMention]:
        """Those that are encoded: all, where a document is read once for all of them."""
        return mentions if self.retriever.reads_documents else self._one_of_each(mentions)

    def choose_rows(
        self, mentions: Sequence[GoldMention], vectors: np.ndarray
    ) -> tuple[list[Row], Targets]:
        """The rows that a batch is trained against. vectors: float32 [n, d], of the mentions."""
        positives = [self.pool.positive_row(m.surface, m.golds[0], self.rng) for m in mentions]
        batch = Batch(positives, [frozenset(mention.golds) for mention in mentions], vectors)
        return self.negatives(batch, self.pool, self.rng)


class RetrieverTrainer(ProxyTrainer):
    """Trains both towers of the retriever."""

    def __init__(
        self,
        retriever: Retriever,
        pool: ProxyPool,
        loss: ScoreLoss,
        fgsm: FGSM | None,
        negatives: Sampler,
        rng: np.random.Generator,
    ):
        super().__init__(retriever, pool, loss, negatives, rng)
        self.fgsm = fgsm
        pool.counts = self.counts

    def gradients(self, mentions: Sequence[GoldMention]) -> StepLoss:
        mentions = self.encoded(mentions)

        def choose_proxies(vectors: np.ndarray) -> tuple[list[EntityText], Targets]:
            rows, targets = self.choose_rows(mentions, vectors)
            self.counts.entity_inputs += len(rows) * (2 if self.fgsm else 1)
            return self.pool.texts(rows, self.rng), targets

        self.counts.mention_inputs += len(mentions)
        return accumulate_gradients(
            self.retriever,
            [mention.context for mention in mentions],
            choose_proxies,
            self.loss,
            self.fgsm,
        )

    def note_update(self) -> None:
        super().note_update()
        self.pool.note_update()

    def state(self) -> dict[str, Any]:
        """As for all trainers; the index is brought up to date, so that it can be made again."""
        return {**super().state(), "has_index": self.pool.bring_up_to_date()}

    def restore(self, state: dict[str, Any]) -> None:
        if state["has_index"]:
            self.pool.refresh_every(1)
        super().restore(state)
