"""Train a retriever: mentions against proxies, and against other mentions."""

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import PelError
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import MentionPairLoss, ScoreLoss, Targets
from ..text.mention_inputs import GoldMention
from .arborescence import Arborescence
from .mention_views import MaskAndReplace
from .negatives import Batch, Sampler
from .pool import NegativePool, Row, StoredRows
from .trainer import NO_LOSS, StepLoss, Trainer


class RetrieverTrainer(Trainer):
    """Trains the towers of a retriever.

    The loss of a step is  L(m, P) + lambda L(m, P_adv)  (PEL, Eq. 8). The mentions m are encoded once for
    both terms. The proxies P are encoded once and, with FGSM, again with perturbed input embeddings. If the
    pool has stored rows, these are the proxies, and only the mention tower is trained.

    ``negatives``, ``pair_loss``, ``coreference`` and ``views`` are settings of the linker. Without a ``loss``
    mentions are compared only with each other. Mentions that ``coreference`` adds are encoded together with
    the batch. Proxies are chosen by the mentions, not by their views.

    Raises:
        PelError: The settings contradict each other.
    """

    def __init__(
        self,
        retriever: Retriever,
        pool: NegativePool,
        loss: ScoreLoss | None,
        negatives: Sampler,
        rng: np.random.Generator,
        *,
        fgsm: FGSM | None = None,
        coreference: Arborescence | None = None,
        pair_loss: MentionPairLoss | None = None,
        views: MaskAndReplace | None = None,
    ):
        super().__init__(retriever.model, retriever, loss, fgsm, views, rng)
        trains_one = pair_loss is not None and len(retriever.model.layers) == 1
        if loss is None and (coreference or not trains_one):
            raise PelError(
                "without a loss over proxies, neither the entity encoder nor gold clusters are trained",
                'give a "loss"; or a "pair_loss", with "shared" of the model set to true and '
                '"coreference" to null',
            )
        if coreference and retriever.reads_documents:
            raise PelError(
                "this retriever reads all mentions of a document together: it cannot train them against "
                "mentions of other documents",
                'set "coreference" to null, or train a spacy-pel.BiEncoder.v1',
            )
        self.pool = pool
        self.negatives = negatives
        self.coreference = coreference
        self.pair_loss = pair_loss

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
        batch = mentions if self.retriever.reads_documents else self.one_of_each(mentions)
        read, edges = batch, None
        if self.coreference is not None:
            known = self.pool.mentions
            assert known is not None, "coreference without an index of mentions"
            edges = self.coreference(known.numbers_of(batch), self.pool, self.rng)
            read = [*batch, *(known.mentions[number] for number in edges.others)]
        vectors, backprop_mentions = self.encode_mentions(read)
        loss, d_vectors = NO_LOSS, np.zeros_like(vectors)
        if self.loss is not None:
            rows, targets = self.choose_rows(batch, vectors[: len(batch)])
            if edges is not None:
                rows, targets = edges.combine(rows, targets)
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
        """Return the vectors of mentions, or of their views, float32 [n, d], and the backward pass."""
        read = [mention.context for mention in mentions]
        if self.views is not None:
            read = self.views(mentions, self.pool.kb, self.rng)
        return self.retriever.mention_tower.begin_update(self.retriever.mention_inputs(read))

    def choose_rows(
        self, mentions: Sequence[GoldMention], vectors: np.ndarray
    ) -> tuple[list[Row], Targets]:
        """Return the rows of the KB to train against, and the targets of the mentions."""
        entities = [mention.golds[0] for mention in mentions]
        surfaces = [mention.surface for mention in mentions]
        positives = self.pool.positive_rows(surfaces, entities, self.rng)
        batch = Batch(positives, [frozenset(mention.golds) for mention in mentions], vectors)
        return self.negatives(batch, self.pool, self.rng)

    def proxy_loss(
        self, vectors: np.ndarray, rows: list[Row], targets: Targets
    ) -> tuple[StepLoss, np.ndarray]:
        """Return the losses over proxies and their gradient by the mentions.

        The gradients of the entity tower are accumulated.
        """
        assert self.loss is not None
        proxy_loss = self.loss
        if isinstance(self.pool.mined, StoredRows):
            (d_mentions, _), loss = proxy_loss((vectors, self.pool.mined.of(rows)), targets)
            return StepLoss(loss, 0.0), d_mentions
        tokens = self.retriever.entity_tokens(self.pool.texts(rows, self.rng))
        d_mentions = np.zeros_like(vectors)

        def objective(proxies: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
            (d_own, d_proxies), loss = proxy_loss((vectors, proxies), targets)
            np.add(d_mentions, weight * d_own, out=d_mentions)
            return loss, weight * d_proxies

        return self.both_passes(self.retriever.entity_tower, tokens, objective), d_mentions

    def note_update(self) -> None:
        super().note_update()
        self.pool.note_update()
