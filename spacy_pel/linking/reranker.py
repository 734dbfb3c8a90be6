"""The cross-encoder as the rest of the package uses it: mentions and candidates in, scores out."""

from collections.abc import Sequence

import numpy as np
from thinc.api import Model

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..models.architectures import encoder_of
from ..text.entity_texts import EntityText, proxy_texts
from ..text.mention_inputs import MentionInContext, PairReader
from ..text.token_inputs import TokenIds, text_inputs

# The number of mentions whose pairs are made and held at a time: enough to sort pairs by length.
CHUNK = 256


class Reranker:
    """An initialised cross-encoder (``models.architectures.crossencoder``) with its tokenizer."""

    def __init__(self, model: Model):
        self.model = model
        # Makes the token ids of a mention and an entity that are read together.
        encoder = encoder_of(model)
        length = model.attrs["length"]
        self.reader = PairReader(encoder.tokenizer, length, encoder.position_limit)
        # What the retriever's score is multiplied by before it is added to the cross-encoder's.
        self.retriever_weight: float = model.attrs["retriever_weight"]
        # If the retriever gives its best candidate at least this probability, the cross-encoder does
        # not read the mention. 1: it reads every mention.
        self.sure: float = model.attrs["sure"]

    def scores(
        self,
        mentions: Sequence[MentionInContext],
        numbers: np.ndarray,
        retriever_scores: np.ndarray,
        kb: KnowledgeBase,
    ) -> np.ndarray:
        """Score each mention with each of its candidates:  cross-encoder + retriever_weight * retriever.

        For a mention that the retriever is sure of (see ``unsure``) it is the second term alone. Pairs
        of the same texts have the same score, to the last bit.

        Args:
            mentions: The n mentions.
            numbers: int64 [n, k], the entity numbers of their candidates; -1 for no candidate.
            retriever_scores: float32 [n, k], best first; -inf for no candidate.
            kb: Where the candidates' texts are.

        Returns:
            float32 [n, k]; -inf for no candidate.

        Raises:
            PelError: A pair's score is NaN or infinite.
        """
        scores = np.where(numbers < 0, np.float32(-np.inf), np.float32(0))
        unsure = np.flatnonzero(self.unsure(retriever_scores))
        for first in range(0, len(unsure), CHUNK):
            chunk = unsure[first : first + CHUNK]
            pairs, cells = self.pairs([mentions[i] for i in chunk], numbers[chunk], kb)
            outputs = self.model.predict(text_inputs(pairs))[:, 0]
            if not np.isfinite(outputs).all():
                raise PelError("the reranker gives NaN or infinity", "check its weights")
            scores[chunk] = np.where(cells < 0, np.float32(-np.inf), outputs[cells])
        if self.retriever_weight:
            scores += np.float32(self.retriever_weight) * retriever_scores
        return scores

    def unsure(self, retriever_scores: np.ndarray) -> np.ndarray:
        """Tell which mentions the cross-encoder reads, bool [n]; none without a candidate.

        A mention is read unless the softmax of the retriever's weighted scores, float32 [n, k], gives
        its best candidate a probability of ``sure`` or more.
        """
        there = np.isfinite(retriever_scores)
        if self.sure == 1:
            return there.any(axis=1)
        best = np.where(there[:, :1], retriever_scores[:, :1], 0)
        behind = np.where(there, retriever_scores, 0) - best
        odds = np.where(there, np.exp(self.retriever_weight * behind), 0)
        return odds.sum(axis=1) * self.sure > 1  # the best one's probability is 1 / their sum

    def pairs(
        self, mentions: Sequence[MentionInContext], numbers: np.ndarray, kb: KnowledgeBase
    ) -> tuple[list[TokenIds], np.ndarray]:
        """The distinct inputs of mentions with their candidates; the arguments are those of ``scores``.

        For each candidate the place of its input among them, int64 [n, k], comes with them; -1 for no
        candidate. Each mention and each entity is tokenised once.
        """
        entities, columns = np.unique(numbers, return_inverse=True)
        columns = columns.reshape(numbers.shape) - (entities < 0).sum()  # -1 becomes negative
        known = entities[entities >= 0]
        # The text of an entity as in the paper: all names, and the definition.
        texts = [proxy_texts(entity, "entity")[0] for entity in kb.entities(known)]
        left, right = self.reader.mentions(mentions), self.reader.entities(texts)
        place_of_text: dict[EntityText, int] = {}
        for place, text in enumerate(texts):
            place_of_text.setdefault(text, place)
        place_of_pair: dict[tuple[int, int], int] = {}
        pairs, cells = [], np.full(numbers.shape, -1, dtype=np.int64)
        for i, j in np.argwhere(columns >= 0).tolist():
            entity = place_of_text[texts[columns[i, j]]]
            place = place_of_pair.setdefault((i, entity), len(pairs))
            if place == len(pairs):
                pairs.append(self.reader.pair(left[i], right[entity]))
            cells[i, j] = place
        return pairs, cells
