"""Neighbours in the order of a cross-encoder, against sorting by hand."""

from __future__ import annotations

import numpy as np

from spacy_pel.kb.vectors.candidate_lists import Candidates
from spacy_pel.linking.paired_mentions import PairedMentions

NUMBERS = np.array([[1, 2, 3], [3, 0, -1], [-1, -1, -1], [2, 1, 0]])
COSINES = np.where(NUMBERS < 0, -np.inf, 0.5).astype(np.float32)
SCORES = {(0, 1): 1.0, (0, 2): 7.0, (0, 3): 1.0, (1, 3): 2.0, (1, 0): 2.0}


class ByHand:
    """A reranker whose scores are SCORES, by what the sides say; the others are 0."""

    def mention_scores(self, sides, neighbours: Candidates) -> np.ndarray:
        scores = np.full(neighbours.numbers.shape, -np.inf, dtype=np.float32)
        for row, column in np.argwhere(neighbours.numbers >= 0):
            other = neighbours.numbers[row, column]
            scores[row, column] = SCORES.get((sides[row], sides[other]), 0.0)
        return scores


def test_the_best_come_first_and_equal_ones_by_number() -> None:
    pairs = PairedMentions(ByHand(), [0, 1, 2, 3])
    found = pairs.scored(Candidates(NUMBERS, COSINES))
    assert found.numbers.tolist() == [[2, 1, 3], [0, 3, -1], [-1, -1, -1], [0, 1, 2]]
    assert found.scores[:2].tolist() == [[7.0, 1.0, 1.0], [2.0, 2.0, -np.inf]]


def test_those_at_some_places() -> None:
    assert PairedMentions(ByHand(), list("abcd")).of(np.array([3, 1])).sides == ["d", "b"]
