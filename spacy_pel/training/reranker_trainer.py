"""Train the reranker on the candidates of a trained retriever (PEL, appendix B)."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.reranker import Reranker
from ..models.adversarial import FGSM
from ..models.architectures import Retriever
from ..models.losses import CrossEntropyLoss, Targets
from ..text.mention_inputs import GoldMention
from .mention_views import MaskAndReplace
from .trainer import Trainer

logger = logging.getLogger(__name__)

# The number of mentions whose candidates are searched at a time.
CHUNK = 1024
# The number of tokens that go through the encoder together. Memory grows with it.
BATCH_TOKENS = 8192


class RerankerTrainer(Trainer):
    """Trains the reranker on the candidates of a retriever, which does not change.

    The candidates of a mention are retrieved once and cached. If none is gold, the first gold entity replaces
    the last candidate. The loss is the cross-entropy over the candidates (PEL, Eq. 1): the first gold
    candidate is the positive, and other gold candidates are left out. Mentions that the reranker does not
    read (``Reranker.unsure``) are skipped.

    The retriever also reads the views, because string matching would find the entity of an unchanged mention.

    Args:
        reranker: The cross-encoder.
        retriever: Finds the candidates.
        kb: The knowledge base, with vectors of the retriever.
        candidates: The number of candidates per mention.
        fgsm, rng, views: See ``Trainer``.
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
        super().__init__(reranker.model, retriever, fgsm, views, rng)
        self.reranker = reranker
        self.kb = kb
        self.candidates = candidates
        self._cache: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by the hash of a mention

    def retrieve(self, mentions: Sequence[GoldMention]) -> None:
        """Retrieve and cache the candidates of all training mentions.

        Raises:
            PelError: No mention has its gold entity among its candidates, or the retriever is sure of
                all mentions and there are no views.
        """
        n_found = n_unsure = 0
        for start in range(0, len(mentions), CHUNK):
            chunk = mentions[start : start + CHUNK]
            numbers, scores = self._retrieved(chunk)
            n_found += sum(bool(np.isin(row, m.golds).any()) for m, row in zip(chunk, numbers))
            n_unsure += int(self.reranker.unsure(scores).sum())
            logger.info("retrieved the candidates of %s mentions", f"{start + len(chunk):,}")
        if not n_found:
            raise PelError(
                f"none of {len(mentions):,} training mentions has its gold entity among the "
                f"{self.candidates} candidates of the retriever",
                "train the retriever first, or give the pipeline whose vectors the KB has",
            )
        if not n_unsure and self.views is None:
            raise PelError(
                f"the retriever is sure of all {len(mentions):,} training mentions: the reranker has "
                "none to learn from",
                f'raise "sure" of the reranker, which is {self.reranker.sure:g}',
            )
        logger.info(
            "%.1f %% of the mentions have their gold entity among their %d candidates; the others "
            "get it added. The reranker trains on the %.1f %% of which the retriever is unsure",
            100 * n_found / len(mentions),
            self.candidates,
            100 * n_unsure / len(mentions),
        )

    def backpropagated_loss(self, mentions: Sequence[GoldMention]) -> float:
        mentions = self.one_of_each(mentions)
        if self.views is not None:
            contexts = self.views(mentions, self.kb, self.rng)
            mentions = [m._replace(context=context) for m, context in zip(mentions, contexts)]
        retrieved, scores = self._retrieved(mentions)
        unsure = self.reranker.unsure(scores)
        if not unsure.any():
            return 0.0
        mentions = [mention for mention, is_unsure in zip(mentions, unsure) if is_unsure]
        numbers, retriever_scores, targets = with_gold(
            retrieved[unsure], scores[unsure], [mention.golds for mention in mentions]
        )
        pairs, cells = self.reranker.pairs([m.context for m in mentions], numbers, self.kb)
        # A missing candidate is no negative, so any pair may take its place.
        cells = np.where(cells < 0, cells[:, :1], cells)
        added = self.reranker.retriever_weight * retriever_scores
        lengths = np.array([len(pair.ids) for pair in pairs])
        total, score_loss = 0.0, CrossEntropyLoss()
        for rows in _row_groups(lengths[cells].sum(axis=1).tolist()):
            used, positions = np.unique(cells[rows], return_inverse=True)
            positions, share = positions.reshape(cells[rows].shape), len(rows) / len(cells)
            row_targets = Targets(targets.positive[rows], targets.negatives[rows])

            def objective(outputs: np.ndarray, weight: float) -> tuple[float, np.ndarray]:
                row_scores = outputs[positions, 0] + added[rows]
                d_scores, loss = score_loss.on_scores(row_scores, row_targets)
                d_outputs = np.zeros((len(used), 1), dtype=np.float32)
                np.add.at(d_outputs[:, 0], positions, weight * share * d_scores)
                return share * loss, d_outputs

            total += self.loss_over_inputs(self.model, [pairs[i] for i in used], objective)
        return total

    def _retrieved(self, mentions: Sequence[GoldMention]) -> tuple[np.ndarray, np.ndarray]:
        """Return the candidates, int64 [n, k], -1 for none, and their scores, float32 [n, k]."""
        keys = [hash((m.text, *m[1:3], m.is_masked)) for m in (gold.context for gold in mentions)]
        unseen = {k: m.context for k, m in zip(keys, mentions) if k not in self._cache}
        if unseen:
            vectors = self.retriever.predict(list(unseen.values()))
            candidates = self.kb.search(vectors, self.candidates)
            self._cache.update(zip(unseen, zip(candidates.numbers, candidates.scores)))
        numbers, scores = zip(*(self._cache[key] for key in keys))
        return np.stack(numbers), np.stack(scores)


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


def with_gold(
    numbers: np.ndarray, scores: np.ndarray, golds: Sequence[tuple[int, ...]]
) -> tuple[np.ndarray, np.ndarray, Targets]:
    """Add a gold candidate to each row that has none; return candidates, scores and targets.

    The first gold entity takes the first free position, or the last if none is free. Its score is that of the
    last candidate found. Free positions score 0.

    Args:
        numbers: int64 [n, k], -1 for no candidate.
        scores: float32 [n, k], -inf for no candidate.
        golds: The gold entities of each mention.
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
