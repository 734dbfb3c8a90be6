"""Training of a retriever: mentions against proxies, and against other mentions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..architectures import encoder_of
from ..errors import PelError
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import EdgeLoss, MentionPairLoss, ScoreLoss, Targets
from ..reading.mention import GoldMention
from ..reading.text_inputs import TextInputs, TokenIds
from .gold_edges import Arborescence
from .index import Row, StoredRows
from .mention_views import MaskAndReplace, check_views
from .negatives import Batch, Sampler
from .pool import Pool
from .trainer import NO_LOSS, StepLoss, Trainer, WorkCounts, both_passes, row_groups


class RetrieverTrainer(Trainer):
    """Trains the towers of a retriever.

    The loss of a step is  L(m, P) + lambda L(m, P_adv)  (PEL, Eq. 8). The mentions m are encoded
    once, for both terms. The proxies P are encoded once as they are and, with FGSM, once more with
    perturbed input embeddings. With ``fgsm.per_pair`` this is done for each pair of a mention and a
    proxy. If the pool has stored rows, these are the proxies: the mention tower alone is trained.

    Args:
        retriever: the bi-encoder that is trained.
        pool: chooses the rows of the KB that mentions are trained against.
        loss: compares the mentions' vectors with those of the proxies; None: mentions are compared
            with each other alone.
        negatives: chooses the negatives of a batch from the pool.
        rng: the generator for everything that is drawn.
        fgsm: perturbs the input embeddings of the proxies; None leaves out the second term.
        coreference: chooses mentions that are positives and negatives as well as entities
            (ArboEL). They are encoded with those of the batch, in one pass. None: entities alone.
        pair_loss: compares the mentions of a batch with each other as well; None: it does not.
        views: what is read in place of the mentions; None: the mentions as they are. The proxies
            are chosen by the mentions as they are.

    Raises:
        PelError: what is to be trained contradicts itself.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: Pool,
        loss: ScoreLoss | None,
        negatives: Sampler,
        rng: np.random.Generator,
        *,
        fgsm: FGSM | None = None,
        coreference: Arborescence | None = None,
        pair_loss: MentionPairLoss | None = None,
        views: MaskAndReplace | None = None,
    ):
        check_views(views, retriever)
        if loss is None and (pair_loss is None or len(retriever.model.layers) > 1):
            raise PelError(
                "without a loss over proxies, nothing trains the encoder of entities",
                'give a "loss"; or a "pair_loss", with "shared" of the model set to true',
            )
        if coreference is not None:
            _check_coreference(retriever, loss, fgsm)
        super().__init__(retriever.model, rng)
        self.retriever = retriever
        self.pool = pool
        self.loss = loss if coreference is None else EdgeLoss(loss)
        self.negatives = negatives
        self.fgsm = fgsm
        self.coreference = coreference
        self.pair_loss = pair_loss
        self.views = views

    @property
    def counts(self) -> WorkCounts:
        return replace(super().counts, index_inputs=self.pool.encoded_rows)

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
        # All of them where a document is read once for all its mentions.
        batch = mentions if self.retriever.reads_documents else self.one_of_each(mentions)
        read = batch
        edges = None
        if self.coreference is not None:
            known = self.pool.mentions
            edges = self.coreference(known.numbers_of(batch), self.pool, self.rng)
            read = [*batch, *(known.mentions[number] for number in edges.others)]
        vectors, backprop_mentions = self.encode_mentions(read)
        loss, d_vectors = NO_LOSS, np.zeros_like(vectors)
        if self.loss is not None:
            rows, targets = self.choose_rows(batch, vectors[: len(batch)])
            if edges is not None:
                rows, targets = edges.beside(rows, targets)
            loss, d_vectors = self.proxy_loss(vectors, rows, targets)
        if self.pair_loss is not None:
            d_pairs, of_pairs = self.pair_loss(vectors, [mention.golds for mention in read])
            loss = loss._replace(clean=loss.clean + of_pairs)
            d_vectors = d_vectors + d_pairs
        backprop_mentions(d_vectors)
        return loss

    def encode_mentions(
        self, mentions: Sequence[GoldMention]
    ) -> tuple[np.ndarray, Callable[[np.ndarray], object]]:
        """The vectors of the mentions, or of views of them, float32 [n, d], and their backward pass."""
        self._counts.mention_inputs += len(mentions)
        read = [mention.context for mention in mentions]
        if self.views is not None:
            read = self.views(mentions, self.pool.kb, self.rng)
        return self.retriever.mention_tower.begin_update(self.retriever.mention_inputs(read))

    def choose_rows(
        self, mentions: Sequence[GoldMention], vectors: np.ndarray
    ) -> tuple[list[Row], Targets]:
        """The rows of the KB that mentions with these vectors are trained against, and the targets."""
        positives = self.pool.positive_rows(
            [mention.surface for mention in mentions],
            [mention.golds[0] for mention in mentions],
            self.rng,
        )
        batch = Batch(positives, [frozenset(mention.golds) for mention in mentions], vectors)
        return self.negatives(batch, self.pool, self.rng)

    def proxy_loss(
        self, vectors: np.ndarray, rows: list[Row], targets: Targets
    ) -> tuple[StepLoss, np.ndarray]:
        """The losses over proxies, whose gradients are added, and their gradient by the mentions."""
        if isinstance(self.pool.mined, StoredRows):
            (d_mentions, _), loss = self.loss((vectors, self.pool.mined.vectors(rows)), targets)
            return StepLoss(loss, 0.0), d_mentions
        tokens = self.retriever.entity_tokens(self.pool.texts(rows, self.rng))
        tower = self.retriever.entity_tower
        width = encoder_of(tower).width
        if self.fgsm is not None and self.fgsm.per_pair:
            return self._pairs_loss(tokens, width, vectors, targets)
        d_mentions = np.zeros_like(vectors)

        def one_pass(inputs: TextInputs, weight: float) -> tuple[float, list[np.ndarray]]:
            self._counts.entity_inputs += len(inputs.tokens)
            proxies, backprop = tower.begin_update(inputs)
            (d_own, d_proxies), loss = self.loss((vectors, proxies), targets)
            np.add(d_mentions, weight * d_own, out=d_mentions)
            return loss, backprop(weight * d_proxies)

        return both_passes(tokens, width, self.fgsm, one_pass), d_mentions

    def _pairs_loss(
        self, tokens: Sequence[TokenIds], width: int, vectors: np.ndarray, targets: Targets
    ) -> tuple[StepLoss, np.ndarray]:
        """As ``proxy_loss``, where each pair of a mention and a proxy is an input of its own.

        A pair's score is in the loss of its mention alone. So the sign of the gradient of the loss
        by the pair's input is that of Eq. 6 for a negative, and of Eq. 7 for a positive. The
        weights get the gradients of Eq. 8.
        """
        is_pair = targets.negatives.copy()
        is_pair[np.arange(len(is_pair)), targets.positive] = True
        self._counts.entity_inputs += 2 * int(is_pair.sum())
        total, d_mentions = NO_LOSS, np.zeros_like(vectors)

        def of_group(rows: np.ndarray, share: float) -> StepLoss:
            mentions = vectors[rows]
            own = Targets(targets.positive[rows], targets.negatives[rows])
            owners, columns = np.nonzero(is_pair[rows])

            def one_pass(inputs: TextInputs, weight: float) -> tuple[float, list[np.ndarray]]:
                proxies, backprop = self.retriever.entity_tower.begin_update(inputs)
                scores = np.zeros(own.negatives.shape, dtype=np.float32)
                scores[owners, columns] = (mentions[owners] * proxies).sum(axis=1)
                d_scores, loss = self.loss.on_scores(scores, own)
                d_pairs = np.float32(weight * share) * d_scores[owners, columns][:, None]
                d_own = np.zeros_like(mentions)
                np.add.at(d_own, owners, d_pairs * proxies)
                d_mentions[rows] += d_own
                return loss, backprop(d_pairs * mentions[owners])

            return both_passes([tokens[column] for column in columns], width, self.fgsm, one_pass)

        for rows in row_groups(np.array([len(t.ids) for t in tokens]) * is_pair):
            share = len(rows) / len(vectors)
            total = total.plus(of_group(rows, share), share)
        return total, d_mentions

    def note_update(self) -> None:
        super().note_update()
        self.pool.note_update()

    def state(self) -> dict[str, Any]:
        """As for all trainers, and what the loss took from the first batch.

        The index is brought up to date, so that it can be made again.
        """
        of_loss = self.loss.state() if self.loss else {}
        return {**super().state(), "has_index": self.pool.bring_up_to_date(), "loss": of_loss}

    def restore(self, state: dict[str, Any]) -> None:
        if self.loss:
            self.loss.restore(state["loss"])
        self.pool.restore(state["has_index"], state["counts"]["index_inputs"])
        super().restore(state)


def _check_coreference(retriever: Retriever, loss: ScoreLoss | None, fgsm: FGSM | None) -> None:
    """Refuse what contradicts the training against mentions of gold clusters."""
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
