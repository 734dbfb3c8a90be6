"""One answer for the mentions of a group, against means and sorting in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.kb.vectors.index import VectorIndex
from spacy_pel.linking.calibration import Calibration
from spacy_pel.linking.link import link
from spacy_pel.linking.reranking import Reranking

ENTITIES, DIM = 6, 3
# Binary fractions, whose means of up to four are exact: ties are ties in any arithmetic.
EXACT = st.integers(-8, 8).map(lambda n: n / 8)
VECTORS = st.lists(st.tuples(*[EXACT] * DIM), min_size=1, max_size=4)
GROUPS = st.lists(st.integers(0, 1), min_size=4, max_size=4).map(
    lambda groups: groups if sum(groups) in (0, 2, 4) else [5, 3, 4, 5]  # of one, two or four
)


class Encoder:
    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    def mention_vectors(self, mentions) -> np.ndarray:
        return self.vectors[mentions]


class ByTable:
    """A reranker that scores mention i and entity j by a table."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def scores(self, mentions, numbers, found, kb, weight) -> np.ndarray:
        scores = np.take_along_axis(self.table[mentions], np.maximum(numbers, 0), axis=1)
        return np.where(numbers < 0, -np.inf, scores).astype(np.float32)


class Labels:
    """A KB whose ids ascend with the numbers."""

    def labels(self, numbers) -> list[tuple[str, str]]:
        return [(f"C{number}", "name") for number in numbers]


def arrays(shape: tuple[int, ...]):
    size = int(np.prod(shape))
    return st.lists(EXACT, min_size=size, max_size=size).map(
        lambda values: np.array(values, dtype=np.float32).reshape(shape)
    )


problems = st.tuples(arrays((4, DIM)), arrays((ENTITIES, DIM)), arrays((4, ENTITIES)), GROUPS)


def by_mean(table: np.ndarray, groups: list[int], mention: int) -> list[float]:
    """The mean score of each entity, of the mentions in the mention's group."""
    members = [i for i in range(len(groups)) if groups[i] == groups[mention]]
    return [sum(float(table[i, j]) for i in members) / len(members) for j in range(table.shape[1])]


@settings(deadline=None)
@given(problems, st.integers(1, ENTITIES), st.booleans())
def test_a_group_is_ranked_by_the_means_of_its_scores(problem, k, reranked) -> None:
    mentions, entities, table, groups = problem
    index = VectorIndex.from_vectors(entities, np.arange(ENTITIES))
    links = link(
        Encoder(mentions),
        index,
        np.arange(4),
        k,
        nil_threshold=0.25,
        calibration=Calibration(1.0, 0.0),
        reranking=Reranking(ByTable(table), Labels(), ENTITIES) if reranked else None,
        groups=np.array(groups),
    )
    for mention in range(4):
        scores = by_mean(mentions @ entities.T, groups, mention)
        decisive = by_mean(table, groups, mention) if reranked else scores
        found = sorted(range(ENTITIES), key=lambda j: (-scores[j], j))
        order = sorted(found, key=lambda j: (-decisive[j], j))[:k]
        assert links.numbers[mention].tolist() == order
        assert links.scores[mention].tolist() == [scores[j] for j in order]
        assert links.nil[mention] == (max(scores) < 0.25)
        for other in range(4):
            if groups[other] == groups[mention]:
                assert links.probabilities[other] == links.probabilities[mention]


def test_each_group_is_searched_within_its_own_limits() -> None:
    seen = []

    class Index:
        def search(self, vectors, k, only):
            seen.append((vectors.tolist(), only))
            return VectorIndex.from_vectors(np.eye(2, dtype=np.float32), np.arange(2)).search(
                vectors, k
            )

    vectors = np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32)
    links = link(
        Encoder(vectors),
        Index(),
        np.arange(3),
        1,
        filters=["a", "b", "a"],
        groups=np.array([4, 2, 4]),
    )
    assert sorted(seen, key=str) == [([[0.0, 1.0]], "b"), ([[0.5, 0.5]], "a")]
    assert links.numbers.tolist() == [[0], [1], [0]]
