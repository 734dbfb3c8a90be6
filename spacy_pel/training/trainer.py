"""Training of the retriever on batches of gold mentions."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import numpy as np

from ..errors import PelError
from ..inputs import EntityText, MentionInContext
from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss, Targets
from ..retriever import Retriever
from .negatives import Batch, Sampler
from .objective import StepLoss, accumulate_gradients
from .proxy_pool import ProxyPool


class GoldMention(NamedTuple):
    """A mention and the numbers of its gold entities, any of which is right; at least one."""

    context: MentionInContext
    golds: tuple[int, ...]

    @property
    def surface(self) -> str:
        text, start, end = self.context
        return text[start:end]


class RetrieverTrainer:
    """Adds the gradients of batches of mentions to the retriever's weights."""

    def __init__(
        self,
        retriever: Retriever,
        pool: ProxyPool,
        loss: ScoreLoss,
        fgsm: Optional[FGSM],
        negatives: Sampler,
        rng: np.random.Generator,
    ):
        self.retriever = retriever
        self.pool = pool
        self.loss = loss
        self.fgsm = fgsm
        self.negatives = negatives
        self.rng = rng

    def step(self, mentions: Sequence[GoldMention]) -> StepLoss:
        """Accumulate the gradients of one batch. Raises PelError if the loss is not a number."""
        mentions = self._one_of_each(mentions)
        golds = [frozenset(mention.golds) for mention in mentions]

        def choose_proxies(vectors: np.ndarray) -> tuple[list[EntityText], Targets]:
            positives = [
                self.pool.positive_row(m.surface, m.golds[0], self.rng) for m in mentions
            ]
            batch = Batch(positives, golds, vectors)
            rows, targets = self.negatives(batch, self.pool, self.rng)
            return self.pool.texts(rows, self.rng), targets

        contexts = [mention.context for mention in mentions]
        step = accumulate_gradients(
            self.retriever, contexts, choose_proxies, self.loss, self.fgsm
        )
        if not np.isfinite(sum(step)):
            raise PelError(
                f'the loss is {sum(step)} for a batch that begins with "{mentions[0].surface}"; '
                "lower the learning rate"
            )
        return step

    def _one_of_each(self, mentions: Sequence[GoldMention]) -> list[GoldMention]:
        """The mentions, but one drawn at random where a document repeats a name of an entity.

        Repeats are near-copies: to encode each of them would cost time and teach little.
        """
        groups: dict[tuple, list[GoldMention]] = {}
        for mention in mentions:
            key = (mention.context.text, mention.surface.lower(), mention.golds)
            groups.setdefault(key, []).append(mention)
        return [group[self.rng.integers(len(group))] for group in groups.values()]
