"""What all trainers have in common: a step on a batch of gold mentions, and the passes of FGSM."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from thinc.api import Model

from ..errors import PelError
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.architectures import Tower, encoder_of
from ..models.losses import ScoreLoss, Targets
from ..text.mention_inputs import GoldMention
from ..text.token_inputs import TokenIds, text_inputs
from .mention_views import MaskAndReplace

# The number of tokens that go through the encoder together. Memory grows with it.
HELD_TOKENS = 8192
# The tensors of a step are as long as its inputs, so they seldom fit into the gaps that those of
# another step have left. glibc keeps the gaps: after some hundred steps, gigabytes of them. They are
# returned after this many updates, which takes a tenth of a second.
UPDATES_PER_RELEASE = 16
_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None

# From the outputs of a tower, and the weight of their loss, to that loss and its gradient by the outputs.
Objective = Callable[[np.ndarray, float], tuple[float, np.ndarray]]
# From the outputs for pairs, float32 [p, d], and the numbers of the pairs, int64 [p], to their scores,
# float32 [p], and what gives the gradient by the outputs from that by the scores, float32 [p, 1].
PairScores = Callable[
    [np.ndarray, np.ndarray], tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]
]


class StepLoss(NamedTuple):
    """The mean loss over the mentions of a step."""

    clean: float  # of the inputs as they are
    adversarial: float  # of the perturbed inputs, times lambda; 0 without FGSM

    def plus(self, other: StepLoss, share: float = 1.0) -> StepLoss:
        """The sum of both, of which the other counts for a share."""
        return StepLoss(*(a + share * b for a, b in zip(self, other)))


NO_LOSS = StepLoss(0.0, 0.0)


class Trainer:
    """Adds the gradients of batches of mentions to those of a model's weights.

    A subclass defines ``backpropagated_loss``.

    The retriever encodes mentions. ``views`` are read in their place; None: as they are. PelError: the
    mentions of such views are read together in their document.
    """

    def __init__(
        self,
        model: Model,
        retriever: Retriever,
        loss: ScoreLoss | None,
        fgsm: FGSM | None,
        views: MaskAndReplace | None,
        rng: np.random.Generator,
    ):
        if views is not None and retriever.reads_documents:
            raise PelError(
                "mentions that are read together in their document cannot be masked or replaced",
                'set "views" to null, or train a spacy-pel.BiEncoder.v1',
            )
        self.model = model
        self.retriever = retriever
        self.loss = loss
        self.fgsm = fgsm
        self.views = views
        self.rng = rng
        # Of all batches since somebody set them to nothing, for a log.
        self.mentions, self.total_loss = 0, NO_LOSS
        self._updates = 0

    def step(self, mentions: Sequence[GoldMention]) -> StepLoss:
        """Learn from one batch of at least one mention: add its gradients to those of the weights.

        PelError: the loss is not finite.
        """
        self.mentions += len(mentions)
        loss = self.backpropagated_loss(mentions)
        if not np.isfinite(sum(loss)):
            raise PelError(
                f'the loss is {sum(loss)} for a batch that begins with "{mentions[0].surface}"',
                "lower the learning rate",
            )
        self.total_loss = self.total_loss.plus(loss)
        return loss

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
        """The loss of one batch, whose gradients have been added to those of the weights."""
        raise NotImplementedError

    def one_of_each(self, mentions: Sequence[GoldMention]) -> list[GoldMention]:
        """The mentions, but one drawn at random where a document repeats a name of an entity.

        Repeats are near-copies: encoding each of them would cost time and teach little.
        """
        groups: dict[tuple, list[GoldMention]] = {}
        for mention in mentions:
            key = (mention.context.text, mention.surface.lower(), mention.golds)
            groups.setdefault(key, []).append(mention)
        return [group[self.rng.integers(len(group))] for group in groups.values()]

    def both_passes(
        self, tower: Tower, tokens: Sequence[TokenIds], objective: Objective
    ) -> StepLoss:
        """L and lambda L_adv (Eq. 8), whose gradients are added.

        The tower reads the inputs as they are and, with FGSM, perturbed (Eq. 6 and 7). With FGSM the
        first pass carries perturbations of zero, so that its backward pass gives the gradient by each.
        """

        def one_pass(perturbations: list[np.ndarray] | None, weight: float):
            outputs, backprop = tower.begin_update(text_inputs(tokens, perturbations))
            loss, d_outputs = objective(outputs, weight)
            return loss, backprop(d_outputs)

        if self.fgsm is None:
            return StepLoss(one_pass(None, 1.0)[0], 0.0)
        width, weight = encoder_of(tower).width, self.fgsm.weight
        zeros = [np.zeros((len(each.ids), width), dtype=np.float32) for each in tokens]
        clean, d_inputs = one_pass(zeros, 1.0)
        adversarial, _ = one_pass(self.fgsm.perturbations(d_inputs), weight)
        return StepLoss(clean, weight * adversarial)

    def loss_of_pairs(
        self,
        tower: Tower,
        pairs: Sequence[TokenIds],
        cells: np.ndarray,
        targets: Targets,
        pair_scores: PairScores,
        added: np.ndarray,
    ) -> StepLoss:
        """The mean loss of mentions over pairs, each an input of its own, whose gradients are added.

        Args:
            tower: reads the pairs.
            pairs: the inputs.
            cells: the numbers of each mention's pairs, int64 [n, k]; -1 for none.
            targets: the positive and the negatives among the k.
            pair_scores: makes scores of the outputs.
            added: what is added to the scores, float32 [n, k].
        """
        lengths = np.array([len(pair.ids) for pair in pairs])
        n_tokens = np.where(cells < 0, 0, lengths[cells]).sum(axis=1)
        total = NO_LOSS
        for rows in _row_groups(n_tokens.tolist()):
            share, there = len(rows) / len(cells), cells[rows] >= 0
            used, places = np.unique(cells[rows][there], return_inverse=True)
            own = Targets(targets.positive[rows], targets.negatives[rows])

            def objective(outputs: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
                of_pairs, backprop = pair_scores(outputs, used)
                scores = np.zeros(there.shape, dtype=np.float32)
                scores[there] = of_pairs[places]
                d_scores, loss = self.loss.on_scores(scores + added[rows], own)
                d_pairs = np.zeros((len(used), 1), dtype=np.float32)
                np.add.at(d_pairs[:, 0], places, weight * share * d_scores[there])
                return loss, backprop(d_pairs)

            loss = self.both_passes(tower, [pairs[number] for number in used], objective)
            total = total.plus(loss, share)
        return total

    def note_update(self) -> None:
        """Tell the trainer that the weights have changed."""
        self._updates += 1
        if self._updates % UPDATES_PER_RELEASE == 0 and _malloc_trim is not None:
            _malloc_trim(0)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps in addition to the weights, as plain data."""
        return {"rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state. The model must have the weights of that time."""
        self.rng.bit_generator.state = state["rng"]


def _row_groups(sizes: list[int]) -> Iterator[np.ndarray]:
    """The mentions in groups of at most HELD_TOKENS tokens, or of one, by their numbers of tokens.

    The loss of a mention needs no other mention, so a step's memory need not grow with its batch.
    """
    group: list[int] = []
    for row, size in enumerate(sizes):
        if group and sum(sizes[i] for i in group) + size > HELD_TOKENS:
            yield np.array(group)
            group = []
        group.append(row)
    yield np.array(group)
