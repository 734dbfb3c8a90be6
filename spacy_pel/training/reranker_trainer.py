"""Training of the reranker on the candidates of a trained retriever (PEL, appendix B)."""

import logging
from collections.abc import Sequence

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.reranker import Reranker
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import CrossEntropyLoss, Targets
from ..text.mention_inputs import GoldMention
from .mention_views import MaskAndReplace
from .trainer import NO_LOSS, StepLoss, Trainer

logger = logging.getLogger(__name__)

# The number of mentions whose candidates are searched at a time.
CHUNK = 1024


class RerankerTrainer(Trainer):
    """Adds the gradients of batches of mentions to the weights of the reranker alone.

    The candidates of a mention are what the retriever, which does not change, finds in the KB.
    They are searched once and kept. If none of them is gold, the mention's first gold entity
    replaces the last one. The loss is the cross-entropy over the candidates (PEL, Eq. 1): the
    first gold one is the positive, and other gold ones are left out. Mentions that the reranker
    leaves to the retriever (``Reranker.unsure``) are not trained on.

    The retriever reads the views, too: a mention that is a name of its entity would be found by
    comparing strings.

    Args:
        reranker: the cross-encoder that is trained.
        retriever: finds the candidates.
        kb: the knowledge base, with vectors of the retriever.
        candidates: the number of candidates of a mention.
        fgsm, rng, views: as of ``Trainer``.
    """

    def __init__(
        self,
        reranker: Reranker,
        retriever: Retriever,
        kb: KnowledgeBase,
        candidates: int,
        fgsm: FGSM | None,
        rng: np.random.Generator,
        views: MaskAndReplace | None = None,
    ):
        super().__init__(reranker.model, retriever, CrossEntropyLoss(), fgsm, views, rng)
        self.reranker = reranker
        self.kb = kb
        self.candidates = candidates
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by a mention's hash

    def retrieve(self, mentions: Sequence[GoldMention]) -> None:
        """Search the candidates of all training mentions, and keep them.

        Raises:
            PelError: there is nothing to learn: no mention has its gold entity among its candidates,
                or the retriever is sure of all mentions and there are no views of them.
        """
        n_found = n_unsure = 0
        for start in range(0, len(mentions), CHUNK):
            chunk = mentions[start : start + CHUNK]
            numbers, scores = self._retrieved(chunk)
            n_found += sum(np.isin(row, m.golds).any() for m, row in zip(chunk, numbers))
            n_unsure += int(self.reranker.unsure(scores).sum())
            logger.info("searched the candidates of %s mentions", f"{start + len(chunk):,}")
        if not n_found:
            raise PelError(
                f"the retriever's {self.candidates} candidates hold the right entity for none of "
                f"{len(mentions):,} training mentions",
                "train the retriever first, or give the pipeline whose vectors the KB has",
            )
        if not n_unsure and self.views is None:
            raise PelError(
                f"the retriever is sure of all {len(mentions):,} training mentions, so nothing is left "
                f"for the reranker",
                f'raise "sure" of the reranker, which is {self.reranker.sure:g}',
            )
        logger.info(
            "%.1f %% of the mentions have their right entity among their %d candidates; the others "
            "get it added. The reranker is trained on the %.1f %% that the retriever is unsure of",
            100 * n_found / len(mentions),
            self.candidates,
            100 * n_unsure / len(mentions),
        )

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> StepLoss:
        mentions = self.one_of_each(mentions)
        if self.views is not None:
            contexts = self.views(mentions, self.kb, self.rng)
            mentions = [m._replace(context=context) for m, context in zip(mentions, contexts)]
        retrieved, scores = self._retrieved(mentions)
        unsure = self.reranker.unsure(scores)
        if not unsure.any():
            return NO_LOSS
        mentions = [mention for mention, is_unsure in zip(mentions, unsure) if is_unsure]
        numbers, retriever_scores, targets = with_gold(
            retrieved[unsure], scores[unsure], [mention.golds for mention in mentions]
        )
        pairs, cells = self.reranker.pairs([m.context for m in mentions], numbers, self.kb)
        return self.loss_of_pairs(
            self.model,
            pairs,
            # Where there is no candidate there is no negative, so any pair may stand there.
            np.where(cells < 0, cells[:, :1], cells),
            targets,
            lambda outputs, numbers: (outputs[:, 0], lambda d_scores: d_scores),
            self.reranker.retriever_weight * retriever_scores,
        )

    def _retrieved(self, mentions: Sequence[GoldMention]) -> tuple[np.ndarray, np.ndarray]:
        """The candidates, int64 [n, k], -1 where there are fewer, and their scores, float32 [n, k].

        Those of mentions that were not seen before are searched now.
        """
        keys = [hash((m.text, *m[1:3], m.is_masked)) for m in (gold.context for gold in mentions)]
        unseen = {k: m.context for k, m in zip(keys, mentions) if k not in self._kept}
        if unseen:
            vectors = self.retriever.mention_vectors(list(unseen.values()))
            found = self.kb.search(vectors, self.candidates)
            self._kept.update(zip(unseen, zip(found.numbers, found.scores)))
        numbers, scores = zip(*(self._kept[key] for key in keys))
        return np.stack(numbers), np.stack(scores)


def with_gold(
    numbers: np.ndarray, scores: np.ndarray, golds: Sequence[tuple[int, ...]]
) -> tuple[np.ndarray, np.ndarray, Targets]:
    """The candidates with a gold one in each row, the retriever's scores of them, and the targets.

    In a row without a gold candidate the first gold entity takes the first free place, or the last
    place if none is free. It scores as the last that was found. A place that stays free scores 0.

    numbers: int64 [n, k], -1 where there are fewer. scores: float32 [n, k], -inf there.
    """
    trained = numbers.copy()
    is_gold = np.zeros(numbers.shape, dtype=bool)
    for row, marks, gold in zip(trained, is_gold, golds):
        marks[:] = np.isin(row, gold)
        if not marks.any():
            place = int(np.argmax(row < 0)) if (row < 0).any() else -1
            row[place], marks[place] = gold[0], True
    last = np.where(np.isfinite(scores), scores, np.inf).min(axis=1, keepdims=True)
    scores = np.where((trained != numbers) & np.isfinite(last), last, scores)
    scores = np.where(np.isfinite(scores), scores, np.float32(0))
    return trained, scores, Targets(is_gold.argmax(axis=1), (trained >= 0) & ~is_gold)
