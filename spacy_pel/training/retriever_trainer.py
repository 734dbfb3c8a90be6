"""Training of both towers of a retriever against proxies that are encoded in each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..architectures import encoder_of
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss, Targets
from ..reading.text_inputs import TextInputs
from .adversarial_inputs import clean_inputs, perturbed_inputs
from .negatives import Row, Sampler
from .pair_passes import PairPasses, pairs_of
from .proxy_pool import ProxyPool
from .proxy_trainer import ProxyTrainer
from .trainer import StepLoss
from .work_counts import WorkCounts


class ProxyPass(NamedTuple):
    """What one pass of the proxies through the entity tower gives.

    Attributes:
        loss: the mean loss over the mentions, times the weight of the pass.
        d_mentions: its gradient with respect to the mentions' vectors, float32 [n, d].
        d_inputs: its gradient with respect to the perturbations of each input, float32 [t, d].
    """

    loss: float
    d_mentions: np.ndarray
    d_inputs: list[np.ndarray]


class RetrieverTrainer(ProxyTrainer):
    """Trains both towers of the retriever.

    The loss of a step is  L(m, P) + lambda L(m, P_adv)  (PEL, Eq. 8). The mentions m are encoded
    once, for both terms. The proxies P are encoded once as they are and, with FGSM, once more with
    perturbed input embeddings. With ``fgsm.per_pair`` this is done for each pair of a mention and a
    proxy; see ``PairPasses``.

    Args:
        retriever, loss, negatives, rng, **more: see ``ProxyTrainer``.
        pool: chooses rows and makes their texts. Evaluations search it.
        fgsm: perturbs the input embeddings of the proxies; None leaves out the second term.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: ProxyPool,
        loss: ScoreLoss | None,
        fgsm: FGSM | None,
        negatives: Sampler,
        rng: np.random.Generator,
        **more: Any,
    ):
        super().__init__(retriever, pool, loss, negatives, rng, **more)
        self.fgsm = fgsm

    @property
    def counts(self) -> WorkCounts:
        """The work done so far. The pool counts what it encodes for its index."""
        return replace(super().counts, index_inputs=self.pool.encoded_rows)

    def proxy_loss(
        self, vectors: np.ndarray, rows: list[Row], targets: Targets
    ) -> tuple[StepLoss, np.ndarray]:
        tokens = self.retriever.entity_tokens(self.pool.texts(rows, self.rng))
        tower = self.retriever.entity_tower
        width = encoder_of(tower).width
        if self.fgsm is not None and self.fgsm.per_pair:
            self._counts.entity_inputs += 2 * int(pairs_of(targets).sum())
            passes = PairPasses(tower, width, self.loss, self.fgsm)
            return passes.backpropagated(tokens, vectors, targets)

        inputs = clean_inputs(tokens, width, self.fgsm)
        clean = self.proxy_pass(inputs, vectors, targets)
        if self.fgsm is None:
            return StepLoss(clean.loss, 0.0), clean.d_mentions

        inputs = perturbed_inputs(tokens, clean.d_inputs, self.fgsm)
        adversarial = self.proxy_pass(inputs, vectors, targets, self.fgsm.weight)
        d_mentions = clean.d_mentions + adversarial.d_mentions
        return StepLoss(clean.loss, adversarial.loss), d_mentions

    def proxy_pass(
        self, inputs: TextInputs, mentions: np.ndarray, targets: Targets, weight: float = 1.0
    ) -> ProxyPass:
        """Encode the proxies, compare them with the mentions, and go back to the entity tower.

        Args:
            inputs: the proxies, r of them.
            mentions: the vectors of the mentions, float32 [n, d].
            targets: which proxies are a positive or a negative of which mention.
            weight: the factor of the loss and its gradients.
        """
        self._counts.entity_inputs += len(inputs.tokens)
        vectors, backprop = self.retriever.entity_tower.begin_update(inputs)
        (d_mentions, d_vectors), loss = self.loss((mentions, vectors), targets)
        return ProxyPass(weight * loss, weight * d_mentions, backprop(weight * d_vectors))

    def note_update(self) -> None:
        super().note_update()
        self.pool.note_update()

    def state(self) -> dict[str, Any]:
        """As for all trainers. The index is brought up to date, so that it can be made again."""
        return {**super().state(), "has_index": self.pool.bring_up_to_date()}

    def restore(self, state: dict[str, Any]) -> None:
        self.pool.restore(state["has_index"], state["counts"]["index_inputs"])
        super().restore(state)
