"""The base class of trainers: a step on a batch of gold mentions, with the passes of FGSM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from ..io.memory import release_memory
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.architectures.towers import AnyModel, Tower, encoder_of
from ..models.losses import ScoreLoss, Targets
from ..text.mention_inputs import GoldMention
from ..text.token_inputs import TokenIds, text_inputs
from .mention_views import MaskAndReplace

# The number of tokens that go through the encoder together. Memory grows with it.
BATCH_TOKENS = 8192
# The tensors of a step rarely fit into the gaps that those of an earlier step left. glibc keeps the gaps:
# gigabytes after some hundred steps. They are released after this many updates, in a tenth of a second.
UPDATES_PER_RELEASE = 16

# (outputs of a tower, weight of their loss) -> (loss, gradient by the outputs)
Objective = Callable[[np.ndarray, float], tuple[float, np.ndarray]]
# Maps the gradient by scores, float32 [p, 1], to the gradient by outputs, float32 [p, d].
ScoresBackprop = Callable[[np.ndarray], np.ndarray]
# (outputs of pairs, float32 [p, d]; numbers of the pairs, int64 [p]) -> (scores, float32 [p]; backprop)
PairScores = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ScoresBackprop]]


class StepLoss(NamedTuple):
    """The mean loss over the mentions of a step."""

    clean: float  # of the unperturbed inputs
    adversarial: float  # of the perturbed inputs, times lambda; 0 without FGSM

    def plus(self, other: StepLoss, weight: float = 1.0) -> StepLoss:
        """Add another loss with a weight."""
        return StepLoss(*(a + weight * b for a, b in zip(self, other)))


NO_LOSS = StepLoss(0.0, 0.0)


class Trainer:
    """Accumulate the gradients of batches of mentions. A subclass defines ``backpropagated_loss``.

    Args:
        model: The model that is trained.
        retriever: Encodes the mentions.
        loss: The loss over scores.
        fgsm: The adversarial regulariser, if any.
        views: Replaces mentions by views of them, if any.
        rng: The source of random numbers.

    Raises:
        PelError: There are views, but the retriever reads all mentions of a document together.
    """

    def __init__(
        self,
        model: AnyModel,
        retriever: Retriever,
        loss: ScoreLoss | None,
        fgsm: FGSM | None,
        views: MaskAndReplace | None,
        rng: np.random.Generator,
    ):
        if views is not None and retriever.reads_documents:
            raise PelError(
                "this retriever reads all mentions of a document together: it cannot mask or replace some",
                'set "views" to null, or train a spacy-pel.BiEncoder.v1',
            )
        self.model = model
        self.retriever = retriever
        self.loss = loss
        self.fgsm = fgsm
        self.views = views
        self.rng = rng
        self._updates = 0

    def step(self, mentions: Sequence[GoldMention]) -> StepLoss:
        """Accumulate the gradients of a batch of one or more mentions.

        Raises:
            PelError: The loss is not finite.
        """
        loss = self.backpropagated_loss(mentions)
        if not np.isfinite(sum(loss)):
            raise PelError(
                f'the loss is {sum(loss)} for a batch that begins with "{mentions[0].surface}"',
                "lower the learning rate",
            )
        return loss

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
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

    def both_passes(
        self, tower: Tower, tokens: Sequence[TokenIds], objective: Objective
    ) -> StepLoss:
        """Return L and lambda L_adv (Eq. 8) after accumulating their gradients.

        With FGSM the tower reads the inputs twice: unperturbed, then perturbed (Eq. 6 and 7). The first
        pass has perturbations of zero, so that its backward pass returns the gradients by them.
        """

        def one_pass(
            perturbations: list[np.ndarray] | None, weight: float
        ) -> tuple[float, list[np.ndarray]]:
            outputs, backprop = tower.begin_update(text_inputs(tokens, perturbations))
            loss, d_outputs = objective(outputs, weight)
            return loss, backprop(d_outputs)

        if self.fgsm is None:
            return StepLoss(one_pass(None, 1.0)[0], 0.0)
        width, weight = encoder_of(tower).width, self.fgsm.weight
        zeros = [np.zeros((len(text.ids), width), dtype=np.float32) for text in tokens]
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
        """Return the mean loss of mentions over separate pairs after accumulating its gradients.

        Args:
            tower: Reads the pairs.
            pairs: The inputs.
            cells: The numbers of each mention's pairs, int64 [n, k]; -1 for none.
            targets: The positive and the negatives among the k.
            pair_scores: Computes scores from the outputs.
            added: Added to the scores, float32 [n, k].
        """
        assert self.loss is not None
        score_loss = self.loss
        lengths = np.array([len(pair.ids) for pair in pairs])
        n_tokens = np.where(cells < 0, 0, lengths[cells]).sum(axis=1)
        total = NO_LOSS
        for rows in _row_groups(n_tokens.tolist()):
            share, is_pair = len(rows) / len(cells), cells[rows] >= 0
            used, positions = np.unique(cells[rows][is_pair], return_inverse=True)
            row_targets = Targets(targets.positive[rows], targets.negatives[rows])

            def objective(outputs: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
                of_pairs, backprop = pair_scores(outputs, used)
                scores = np.zeros(is_pair.shape, dtype=np.float32)
                scores[is_pair] = of_pairs[positions]
                d_scores, loss = score_loss.on_scores(scores + added[rows], row_targets)
                d_pairs = np.zeros((len(used), 1), dtype=np.float32)
                np.add.at(d_pairs[:, 0], positions, weight * share * d_scores[is_pair])
                return loss, backprop(d_pairs)

            loss = self.both_passes(tower, [pairs[number] for number in used], objective)
            total = total.plus(loss, share)
        return total

    def note_update(self) -> None:
        """Note that the weights have changed."""
        self._updates += 1
        if self._updates % UPDATES_PER_RELEASE == 0:
            release_memory()


def _row_groups(sizes: list[int]) -> Iterator[np.ndarray]:
    """Group mentions, given their numbers of tokens, into at most BATCH_TOKENS tokens or one mention.

    The loss of a mention needs no other mention, so memory need not grow with the batch.
    """
    group: list[int] = []
    for row, size in enumerate(sizes):
        if group and sum(sizes[i] for i in group) + size > BATCH_TOKENS:
            yield np.array(group)
            group = []
        group.append(row)
    yield np.array(group)
