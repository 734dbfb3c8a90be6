"""The base class of trainers: a step on a batch of gold mentions, with the passes of FGSM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import PelError
from ..io.memory import release_memory
from ..models.adversarial import FGSM
from ..models.architectures import AnyModel, Retriever, Tower, encoder_of
from ..text.mention_inputs import GoldMention
from ..text.token_inputs import TokenIds, text_inputs
from .mention_views import MaskAndReplace
from .pool import NegativePool

# The tensors of a step rarely fit into the gaps that those of an earlier step left. glibc keeps the gaps:
# gigabytes after some hundred steps. They are released after this many updates, in a tenth of a second.
UPDATES_PER_RELEASE = 16

# (outputs of a tower, weight of their loss) -> (loss, gradient of the weighted loss by the outputs)
Objective = Callable[[np.ndarray, float], tuple[float, np.ndarray]]


class Trainer:
    """Accumulates the gradients of batches of mentions. A subclass defines ``backpropagated_loss``.

    Args:
        model: The model that is trained.
        retriever: Encodes the mentions.
        fgsm: The adversarial regulariser, if any.
        views: Replaces mentions by views of them, if any.
        rng: The source of random numbers.
        pool: The pool of negatives, if the model trains on one.

    Raises:
        PelError: There are views, but the retriever reads all mentions of a document together.
    """

    def __init__(
        self,
        model: AnyModel,
        retriever: Retriever,
        fgsm: FGSM | None,
        views: MaskAndReplace | None,
        rng: np.random.Generator,
        pool: NegativePool | None = None,
    ):
        if views is not None and retriever.attrs["mention_reader"].reads_documents:
            raise PelError(
                "this retriever reads all mentions of a document together: it cannot mask or replace some",
                'set "views" to null, or train a spacy-pel.BiEncoder.v1',
            )
        self.model = model
        self.retriever = retriever
        self.fgsm = fgsm
        self.views = views
        self.rng = rng
        self.pool = pool
        self.trained: set[int] = set()  # the entities that are noted as trained (``note_trained``)
        self._updates = 0

    def step(self, mentions: Sequence[GoldMention]) -> float:
        """Accumulate the gradients of a batch of one or more mentions, and return its loss.

        Raises:
            PelError: The loss is not finite.
        """
        loss = self.backpropagated_loss(mentions)
        if not np.isfinite(loss):
            raise PelError(
                f'the loss is {loss} for a batch that begins with "{mentions[0].surface}"',
                "lower the learning rate",
            )
        return loss

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> float:
        """Return the loss of a batch after accumulating its gradients."""
        raise NotImplementedError

    def one_of_each(self, mentions: Sequence[GoldMention]) -> list[GoldMention]:
        """Keep one random mention for each name of an entity in a document.

        Repetitions are near-copies: encoding them costs time and adds little.
        """
        groups: dict[tuple[str, str, tuple[int, ...]], list[GoldMention]] = {}
        for mention in mentions:
            key = (mention.context.text, mention.surface.lower(), mention.golds)
            groups.setdefault(key, []).append(mention)
        return [group[self.rng.integers(len(group))] for group in groups.values()]

    def loss_over_inputs(
        self, tower: Tower, tokens: Sequence[TokenIds], objective: Objective
    ) -> float:
        """Return L + lambda L_adv (Eq. 8) after accumulating its gradients; L without FGSM.

        With FGSM the tower reads the inputs twice: unperturbed, then perturbed (Eq. 6 and 7). The first
        pass has perturbations of zero, so that its backward pass returns the gradients by them.
        """
        weights, perturbations, total = [1.0], None, 0.0
        if self.fgsm is not None:
            weights.append(self.fgsm.weight)
            width = encoder_of(tower).width
            perturbations = [np.zeros((len(text.ids), width), np.float32) for text in tokens]
        for weight in weights:
            outputs, backprop = tower.begin_update(text_inputs(tokens, perturbations))
            loss, d_outputs = objective(outputs, weight)
            total += weight * loss
            gradients = backprop(d_outputs)
            if self.fgsm is not None:
                perturbations = [self.fgsm.perturbation(gradient) for gradient in gradients]
        return total

    def note_update(self) -> None:
        """Note that the weights have changed."""
        if self.pool is not None:
            self.pool.note_update()
        self._updates += 1
        if self._updates % UPDATES_PER_RELEASE == 0:
            release_memory()
