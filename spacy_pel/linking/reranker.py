"""The cross-encoder as the rest of the package uses it: mentions and candidates in, scores out."""

from collections.abc import Sequence

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..models.architectures import Tower, encoder_of
from ..text.entity_texts import EntityText, proxy_texts
from ..text.mention_inputs import MentionInContext, PairReader
from ..text.token_inputs import TokenIds, text_inputs

BATCH_SIZE = 256  # mentions whose pairs are held at a time: enough to sort pairs by length


class Reranker:
    """A cross-encoder with weights.

    ``models.architectures.crossencoder`` explains ``retriever_weight`` and ``sure``.
    """

    def __init__(self, model: Tower):
        self.model = model
        encoder = encoder_of(model)
        self.reader = PairReader(encoder.tokenizer, model.attrs["length"], encoder.position_limit)
        self.retriever_weight: float = model.attrs["retriever_weight"]
        self.sure: float = model.attrs["sure"]

    def scores(
        self,
        mentions: Sequence[MentionInContext],
        numbers: np.ndarray,
        retriever_scores: np.ndarray,
        kb: KnowledgeBase,
    ) -> np.ndarray:
        """Return the score of each mention with each candidate, float32 [n, k]; -inf for no candidate.

            score = cross-encoder's score + retriever_weight * retriever's score

        A mention that the retriever is sure of (see ``unsure``) gets the second term alone. Pairs
        of the same texts get the same score, to the last bit.

        Args:
            mentions: The n mentions.
            numbers: int64 [n, k], the entity numbers of their candidates; -1 for no candidate.
            retriever_scores: float32 [n, k], best first; -inf for no candidate.
            kb: The KB with the texts of the candidates.

        Raises:
            PelError: A pair's score is NaN or infinite.
        """
        scores: np.ndarray = np.where(numbers < 0, np.float32(-np.inf), np.float32(0))
        unsure = np.flatnonzero(self.unsure(retriever_scores))
        for first in range(0, len(unsure), BATCH_SIZE):
            batch = unsure[first : first + BATCH_SIZE]
            pairs, cells = self.pairs([mentions[i] for i in batch.tolist()], numbers[batch], kb)
            outputs = self.model.predict(text_inputs(pairs))[:, 0]
            if not np.isfinite(outputs).all():
                raise PelError("the reranker gives NaN or infinity", "check its weights")
            scores[batch] = np.where(cells < 0, np.float32(-np.inf), outputs[cells])
        if self.retriever_weight:
            scores += np.float32(self.retriever_weight) * retriever_scores
        return scores

    def unsure(self, retriever_scores: np.ndarray) -> np.ndarray:
        """Return which mentions the cross-encoder reads, bool [n].

        It skips a mention without a candidate. It also skips a mention if the softmax of the retriever's
        weighted scores, float32 [n, k], gives the best candidate at least the probability ``sure``.
        """
        present = np.isfinite(retriever_scores)
        unsure: np.ndarray = present.any(axis=1)
        if self.sure < 1:
            best = np.where(present[:, :1], retriever_scores[:, :1], 0)
            behind = np.where(present, retriever_scores, 0) - best
            odds = np.where(present, np.exp(self.retriever_weight * behind), 0)
            # The probability of the best candidate is 1 / sum(odds).
            unsure = odds.sum(axis=1) * self.sure > 1
        return unsure

    def pairs(
        self, mentions: Sequence[MentionInContext], numbers: np.ndarray, kb: KnowledgeBase
    ) -> tuple[list[TokenIds], np.ndarray]:
        """Return the distinct inputs of mentions with their candidates, and the input of each candidate.

        Each mention and each entity is tokenised once. The arguments are those of ``scores``.

        Returns:
            The inputs, and for each candidate its place among them, int64 [n, k]; -1 for no candidate.
        """
        entities, columns = np.unique(numbers, return_inverse=True)
        columns = columns.reshape(numbers.shape) - (entities < 0).sum()  # -1 becomes negative
        known = entities[entities >= 0]
        # The text of an entity is that of the paper: all names and the definition.
        texts = [proxy_texts(entity, "entity")[0] for entity in kb.entities(known)]
        left, right = self.reader.mentions(mentions), self.reader.entities(texts)
        place_of_text: dict[EntityText, int] = {}
        for place, text in enumerate(texts):
            place_of_text.setdefault(text, place)
        place_of_pair: dict[tuple[int, int], int] = {}
        pairs: list[TokenIds] = []
        cells = np.full(numbers.shape, -1, dtype=np.int64)
        for i, j in np.argwhere(columns >= 0).tolist():
            entity = place_of_text[texts[columns[i, j]]]
            place = place_of_pair.setdefault((i, entity), len(pairs))
            if place == len(pairs):
                pairs.append(self.reader.pair(left[i], right[entity]))
            cells[i, j] = place
        return pairs, cells
