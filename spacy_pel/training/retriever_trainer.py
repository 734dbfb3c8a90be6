"""Train a retriever: mentions against proxies, and against other mentions."""

from collections.abc import Sequence

import numpy as np

from ..errors import PelError
from ..models.adversarial import FGSM
from ..models.architectures import Retriever
from ..models.losses import MentionPairLoss, ScoreLoss, Targets
from ..text.mention_inputs import GoldMention
from .arborescence import Arborescence
from .mention_views import MaskAndReplace
from .negatives import Batch, Sampler
from .pool import NegativePool, Row, StoredRows
from .trainer import Trainer


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

    pool: NegativePool

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
        super().__init__(retriever, retriever, fgsm, views, rng, pool)
        trains_one = pair_loss is not None and len(retriever.layers) == 1
        if loss is None and (coreference or not trains_one):
            raise PelError(
                "without a loss over proxies, neither the entity encoder nor gold clusters are trained",
                'give a "loss"; or a "pair_loss", with "shared" of the model set to true and '
                '"coreference" to null',
            )
        if coreference and retriever.attrs["mention_reader"].reads_documents:
            raise PelError(
                "this retriever reads all mentions of a document together: it cannot train them against "
                "mentions of other documents",
                'set "coreference" to null, or train a spacy-pel.BiEncoder.v1',
            )
        self.loss = loss
        self.negatives = negatives
        self.coreference = coreference
        self.pair_loss = pair_loss

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> float:
        batch, edges = mentions, None
        if not self.retriever.attrs["mention_reader"].reads_documents:
            batch = self.one_of_each(mentions)
        encoded = batch
        if self.coreference is not None:
            known = self.pool.mentions
            assert known is not None, "coreference without an index of mentions"
            edges = self.coreference(known.numbers_of(batch), self.pool, self.rng)
            encoded = [*batch, *(known.mentions[number] for number in edges.others)]
        contexts = [mention.context for mention in encoded]
        if self.views is not None:
            contexts = self.views(encoded, self.pool.kb, self.rng)
        vectors, backprop = self.retriever.begin_update(contexts)
        loss, d_vectors = 0.0, np.zeros_like(vectors)
        if self.loss is not None:
            rows, targets = self.choose_rows(batch, vectors[: len(batch)])
            if edges is not None:
                rows, targets = edges.combine(rows, targets)
            loss, d_vectors = self.proxy_loss(vectors, rows, targets)
        if self.pair_loss is not None:
            d_pairs, of_pairs = self.pair_loss(vectors, [mention.golds for mention in encoded])
            loss += of_pairs
            d_vectors = d_vectors + d_pairs
        backprop(d_vectors)
        return loss

    def choose_rows(
        self, mentions: Sequence[GoldMention], vectors: np.ndarray
    ) -> tuple[list[Row], Targets]:
        """Return the rows of the KB to train against, and the targets of the mentions."""
        positives = self.pool.positive_rows(mentions, self.rng)
        batch = Batch(positives, [frozenset(mention.golds) for mention in mentions], vectors)
        return self.negatives(batch, self.pool, self.rng)

    def proxy_loss(
        self, vectors: np.ndarray, rows: list[Row], targets: Targets
    ) -> tuple[float, np.ndarray]:
        """Return the loss over proxies (Eq. 8) and its gradient by the mentions.

        The gradients of the entity tower are accumulated.
        """
        assert self.loss is not None
        proxy_loss = self.loss
        if isinstance(self.pool.mined, StoredRows):
            (d_mentions, _), loss = proxy_loss((vectors, self.pool.mined.of(rows)), targets)
            return loss, d_mentions
        d_mentions = np.zeros_like(vectors)

        def objective(proxies: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
            (d_vectors, d_proxies), loss = proxy_loss((vectors, proxies), targets)
            np.add(d_mentions, weight * d_vectors, out=d_mentions)
            return loss, weight * d_proxies

        tokens = self.retriever.attrs["entity_reader"].tokens(self.pool.texts(rows, self.rng))
        tower = self.retriever.get_ref("entity")
        return self.loss_over_inputs(tower, tokens, objective), d_mentions
