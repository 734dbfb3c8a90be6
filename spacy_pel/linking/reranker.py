"""The cross-encoder as the rest of the package uses it: mentions and candidates in, scores out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from thinc.api import Model

from ..architectures.crossencoder import pair_builder
from ..architectures.towers import TowerInputs
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..reading.inputs import EntityText, MentionInContext, TokenIds
from ..reading.proxies import proxy_texts

# Mentions whose pairs are made and held at a time: enough to sort pairs by length.
CHUNK = 256


class Reranker:
    """An initialised cross-encoder with its tokenizer."""

    def __init__(self, model: Model):
        self.model = model
        self.builder = pair_builder(model)
        self.retriever_weight: float = model.attrs["retriever_weight"]
        self.sure: float = model.attrs["sure"]

    def scores(
        self,
        mentions: Sequence[MentionInContext],
        numbers: np.ndarray,
        found: np.ndarray,
        kb: KnowledgeBase,
        weight: float = 1.0,
    ) -> np.ndarray:
        """The score of each mention with each of its candidates: float32 [n, k].

        numbers: int64 [n, k], entity numbers of the KB; -1 for no candidate, which scores -inf.
        found: float32 [n, k], the retriever's scores of them, which count as they are weighed; of
            mentions that it is sure of, nothing else does.
        weight: what the cross-encoder's score counts beside them; 1 as in training. With 0, where
            ``pel calibrate`` found that it adds nothing, nothing is read.
        Pairs of the same texts have the same score, to the last bit.
        Raises PelError for scores that are not finite.
        """
        scores = np.where(numbers < 0, np.float32(-np.inf), np.float32(0))
        unsure = np.flatnonzero(self.unsure(found)) if weight else ()
        for first in range(0, len(unsure), CHUNK):
            chunk = unsure[first : first + CHUNK]
            pairs, cells = self.pairs([mentions[i] for i in chunk], numbers[chunk], kb)
            outputs = self.model.predict(TowerInputs(pairs))[:, 0]
            if not np.isfinite(outputs).all():
                raise PelError("the reranker gives NaN or infinity", "check its weights")
            scores[chunk] = np.where(cells < 0, np.float32(-np.inf), weight * outputs[cells])
        if self.retriever_weight:
            scores += np.float32(self.retriever_weight) * found
        return scores

    def unsure(self, found: np.ndarray) -> np.ndarray:
        """bool [n]: whether a mention is read again, by the retriever's scores of its candidates.

        found: float32 [n, k], the best first; -inf for no candidate.
        """
        there = np.isfinite(found)
        if self.sure == 1:
            return there.any(axis=1)
        behind = np.where(there, found, 0) - np.where(there[:, :1], found[:, :1], 0)
        odds = np.where(there, np.exp(self.retriever_weight * behind), 0)
        return odds.sum(axis=1) * self.sure > 1  # the best one's probability is 1 / their sum

    def pairs(
        self, mentions: Sequence[MentionInContext], numbers: np.ndarray, kb: KnowledgeBase
    ) -> tuple[list[TokenIds], np.ndarray]:
        """The distinct inputs of the mentions with their candidates, and the place of each.

        numbers: as of ``scores``. The places are int64 [n, k], -1 where there is no candidate.
        Each mention and each entity is tokenised once.
        """
        entities, columns = np.unique(numbers, return_inverse=True)
        columns = columns.reshape(numbers.shape) - (entities < 0).sum()  # -1 becomes negative
        known = entities[entities >= 0]
        # An entity as the paper has it: all names, and the definition.
        texts = [proxy_texts(entity, "entity")[0] for entity in kb.entities(known)]
        left, right = self.builder.mentions(mentions), self.builder.entities(texts)
        place_of_text: dict[EntityText, int] = {}
        for place, text in enumerate(texts):
            place_of_text.setdefault(text, place)
        place_of_pair: dict[tuple[int, int], int] = {}
        pairs, cells = [], np.full(numbers.shape, -1, dtype=np.int64)
        for i, j in np.argwhere(columns >= 0).tolist():
            entity = place_of_text[texts[columns[i, j]]]
            place = place_of_pair.setdefault((i, entity), len(pairs))
            if place == len(pairs):
                pairs.append(self.builder.pair(left[i], right[entity]))
            cells[i, j] = place
        return pairs, cells
