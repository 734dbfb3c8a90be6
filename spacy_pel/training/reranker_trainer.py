"""Training of the reranker on what a trained retriever finds (PEL, appendix B)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from ..architectures.towers import TowerInputs, encoder_of
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.reranker import Reranker
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import CrossEntropyLoss, Targets
from ..reading.gold_mention import GoldMention
from ..reading.inputs import TokenIds
from .objective import StepLoss
from .trainer import Trainer

logger = logging.getLogger(__name__)

# Mentions whose candidates are searched at a time.
CHUNK = 1024
# Tokens whose passes through the encoder are held until their gradients are known.
HELD_TOKENS = 8192


class RerankerTrainer(Trainer):
    """Adds the gradients of batches of mentions to the reranker's weights alone.

    A mention's candidates are what the retriever, which stands still, finds in the KB. They are
    searched once and kept. Where none of them is gold, the mention's first gold entity takes the
    place of the last. The loss is the cross-entropy over them (PEL, Eq. 1): the best of the gold
    ones is the positive, and any other gold one is left out. Mentions that the reranker leaves to
    the retriever (``Reranker.unsure``) are left out of training as well.

    candidates: how many a mention has. fgsm: perturbs the input embeddings of the pairs.
    """

    def __init__(
        self,
        reranker: Reranker,
        retriever: Retriever,
        kb: KnowledgeBase,
        candidates: int,
        fgsm: FGSM | None,
        rng: np.random.Generator,
    ):
        super().__init__(reranker.model, rng)
        self.reranker = reranker
        self.retriever = retriever
        self.kb = kb
        self.candidates = candidates
        self.fgsm = fgsm
        self.loss = CrossEntropyLoss()
        self._kept: dict[tuple[bytes, int, int], tuple[np.ndarray, np.ndarray]] = {}

    def retrieve(self, mentions: Iterable[GoldMention]) -> None:
        """Search the candidates of all training mentions.

        Raises PelError if the gold entity is among them for no mention at all, or the retriever is
        sure of all mentions.
        """
        mentions, n_found, n_unsure, n_mentions = iter(mentions), 0, 0, 0
        while chunk := list(islice(mentions, CHUNK)):
            numbers, scores = self._retrieved(chunk)
            n_found += sum(np.isin(row, m.golds).any() for m, row in zip(chunk, numbers))
            n_unsure += int(self.reranker.unsure(scores).sum())
            n_mentions += len(chunk)
            logger.info("candidates of %s mentions retrieved", f"{n_mentions:,}")
        if not n_found:
            raise PelError(
                f"for none of {n_mentions:,} training mentions the right entity is among the "
                f"retriever's {self.candidates} best",
                "train the retriever first, or give the pipeline whose vectors the KB has",
            )
        if not n_unsure:
            raise PelError(
                f"the retriever is sure of all {n_mentions:,} training mentions, so nothing is left "
                f"for the reranker",
                f'raise "sure" of the reranker, which is {self.reranker.sure:g}',
            )
        logger.info(
            "gold among the %d candidates of %.1f %% of the mentions; added to those of the rest; "
            "%.1f %% are read again",
            self.candidates,
            100 * n_found / n_mentions,
            100 * n_unsure / n_mentions,
        )

    def gradients(self, mentions: Sequence[GoldMention]) -> StepLoss:
        mentions = self._one_of_each(mentions)
        retrieved, scores = self._retrieved(mentions)
        unsure = self.reranker.unsure(scores)
        if not unsure.any():
            return StepLoss(0.0, 0.0)
        mentions = [mention for mention, read in zip(mentions, unsure) if read]
        retrieved, scores = retrieved[unsure], scores[unsure]
        golds = [mention.golds for mention in mentions]
        numbers, targets = with_gold(retrieved, golds)
        beside = self.reranker.retriever_weight * with_added(scores, numbers != retrieved)
        pairs, cells = self.reranker.pairs([m.context for m in mentions], numbers, self.kb)
        # Where there is no candidate there is no negative either: any pair may stand there.
        cells = np.where(cells < 0, cells[:, :1], cells)
        self.counts.mention_inputs += len(mentions)
        self.counts.pair_inputs += len(pairs) * (2 if self.fgsm else 1)
        total = np.zeros(2)
        for rows in _parts(pairs, cells):
            share = len(rows) / len(mentions)
            part = Targets(targets.positive[rows], targets.negatives[rows])
            step = self._accumulate(pairs, cells[rows], beside[rows], part, share)
            total += share * np.array(step)
        return StepLoss(*total.tolist())

    def _accumulate(
        self,
        pairs: Sequence[TokenIds],
        cells: np.ndarray,
        beside: np.ndarray,
        targets: Targets,
        share: float,
    ) -> StepLoss:
        """Add the gradients of  share (L + lambda L_adv)  of these mentions; gives L, lambda L_adv.

        cells: the place of each candidate's pair, [n, k]. beside: what is added to its score.
        """
        used, places = np.unique(cells, return_inverse=True)
        places = places.reshape(cells.shape)

        def add_gradients(inputs: TowerInputs, weight: float) -> tuple[list[np.ndarray], float]:
            """Of the loss times a weight; gives those of the inputs, and the loss."""
            outputs, backprop = self.model.begin_update(inputs)
            d_scores, loss = self.loss.on_scores(outputs[places, 0] + beside, targets)
            d_outputs = np.zeros_like(outputs)
            np.add.at(d_outputs[:, 0], places, weight * d_scores)
            return backprop(d_outputs), loss

        tokens = [pairs[cell] for cell in used.tolist()]
        unperturbed = None
        if self.fgsm:
            width = encoder_of(self.model.layers[0]).width
            unperturbed = [np.zeros((len(t.ids), width), dtype=np.float32) for t in tokens]
        d_inputs, clean = add_gradients(TowerInputs(tokens, unperturbed), share)
        if not self.fgsm:
            return StepLoss(clean, 0.0)
        perturbed = TowerInputs(tokens, self.fgsm.perturbations(d_inputs))
        _, adversarial = add_gradients(perturbed, share * self.fgsm.weight)
        return StepLoss(clean, self.fgsm.weight * adversarial)

    def _retrieved(self, mentions: Sequence[GoldMention]) -> tuple[np.ndarray, np.ndarray]:
        """The candidates of the mentions, int64 [n, candidates], -1 where there are fewer, and the
        retriever's scores of them.

        Those of mentions that were not seen before are searched now.
        """
        keys = [_key(mention) for mention in mentions]
        unseen = {k: m.context for k, m in zip(keys, mentions) if k not in self._kept}
        if unseen:
            vectors = self.retriever.mention_vectors(list(unseen.values()))
            found = self.kb.search(vectors, self.candidates)
            self._kept.update(zip(unseen, zip(found.numbers, found.scores)))
        numbers, scores = zip(*(self._kept[key] for key in keys))
        return np.stack(numbers), np.stack(scores)


def with_gold(numbers: np.ndarray, golds: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, Targets]:
    """Candidates [n, k] of which one is gold in each row, and what is asked of them.

    Where none is, the first of the golds takes the first free place, or else the last.
    """
    numbers = numbers.copy()
    is_gold = np.zeros(numbers.shape, dtype=bool)
    for row, marks, gold in zip(numbers, is_gold, golds):
        marks[:] = np.isin(row, gold)
        if not marks.any():
            place = int(np.argmax(row < 0)) if (row < 0).any() else -1
            row[place], marks[place] = gold[0], True
    return numbers, Targets(is_gold.argmax(axis=1), (numbers >= 0) & ~is_gold)


def with_added(scores: np.ndarray, added: np.ndarray) -> np.ndarray:
    """Scores [n, k] of candidates of which some were added: those as the last one found.

    scores: float32, -inf where nothing was found, which becomes 0. added: bool [n, k].
    """
    found = np.isfinite(scores)
    last = np.where(found, scores, np.inf).min(axis=1, keepdims=True)
    scores = np.where(added & np.isfinite(last), last, scores)
    return np.where(np.isfinite(scores), scores, np.float32(0))


def _parts(pairs: Sequence[TokenIds], cells: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of cells in parts of few tokens, but of one row at least.

    A mention's loss needs no other mention, so the memory of a step need not grow with its batch.
    """
    lengths = np.array([len(pair.ids) for pair in pairs])
    tokens = lengths[cells].sum(axis=1)
    part: list[int] = []
    for row, size in enumerate(tokens.tolist()):
        if part and tokens[part].sum() + size > HELD_TOKENS:
            yield np.array(part)
            part = []
        part.append(row)
    yield np.array(part)


def _key(mention: GoldMention) -> tuple[bytes, int, int]:
    """Names a mention in little memory, however long its text."""
    text, start, end = mention.context
    return hashlib.blake2b(text.encode(), digest_size=16).digest(), start, end
