"""The bonus for exact names in the order of candidates, and filtered searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.kb import KnowledgeBase, SearchFilter
from spacy_pel.kb.records.names import normalised
from spacy_pel.kb.vectors.index import Candidates, VectorIndex
from spacy_pel.linking.calibration import Calibration
from spacy_pel.linking.exact_names import (
    ExactNameBonus,
    SoleOwnersFirst,
    is_acronym,
)
from spacy_pel.linking.link import link
from spacy_pel.linking.nil import Sure
from spacy_pel.linking.reranking import Reranking
from spacy_pel.reading.mention import MentionInContext

from ..conftest import ENTITIES

SURFACES = ["ms", "RA", "Head-pain", "multiple  sclerosis", "nothing"]
MENTIONS = [MentionInContext(f"a {s} b", 2, 2 + len(s)) for s in SURFACES]


@pytest.fixture(scope="module")
def kb(tiny_kb: Path) -> KnowledgeBase:
    return KnowledgeBase.open(tiny_kb)


class Encoder:
    """Gives each mention the vector of its place."""

    def mention_vectors(self, mentions) -> np.ndarray:
        return np.eye(len(mentions), dtype=np.float32)


def index(scores) -> VectorIndex:
    """An index in which mention i has score [i, j] with entity j."""
    scores = np.array(scores, dtype=np.float32)
    return VectorIndex.from_vectors(scores.T, np.arange(scores.shape[1]))


def is_named(entity: int, surface: str) -> bool:
    return normalised(surface) in map(normalised, ENTITIES[entity].names)


tables = st.lists(
    st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75]), min_size=7, max_size=7),
    min_size=5,
    max_size=5,
)


@settings(deadline=None)
@given(tables, st.sampled_from([0.0, 0.25, 0.6, -0.3]), st.integers(1, 7))
def test_candidates_are_ordered_by_score_and_name(kb, scores, weight, k) -> None:
    links = link(Encoder(), index(scores), MENTIONS, k, exact_names=ExactNameBonus(kb, weight))
    for surface, row, *said in zip(SURFACES, scores, links.numbers, links.scores, links.named):
        found = sorted(range(7), key=lambda n: -row[n])  # by the retriever alone
        found.sort(key=lambda n: -(np.float32(row[n]) + weight * is_named(n, surface)))
        del found[k:]  # the names of all were looked at
        assert said[0].tolist() == found
        assert said[1].tolist() == [np.float32(row[n]) for n in found]
        assert said[2].tolist() == [is_named(n, surface) for n in found]


@settings(deadline=None)
@given(tables, st.integers(1, 7))
def test_a_sole_owner_comes_first_and_all_else_stays(kb, scores, k) -> None:
    calibration = Calibration(2, 0.5)
    links = link(
        Encoder(), index(scores), MENTIONS, k,
        nil_threshold=0.3, calibration=calibration, exact_names=SoleOwnersFirst(kb),
    )  # fmt: skip
    for i, (surface, row) in enumerate(zip(SURFACES, scores)):
        owners = [n for n in range(7) if is_named(n, surface)]
        found = sorted(range(7), key=lambda n: -row[n])
        if len(owners) == 1 and not is_acronym(surface):
            found.sort(key=lambda n: n not in owners)
        assert links.numbers[i].tolist() == found[:k]
        assert links.scores[i].tolist() == [np.float32(row[n]) for n in found[:k]]
        assert links.nil[i] == (max(row) < 0.3)
        assert links.probabilities[i] == calibration.probabilities(row[found[0]])
    assert links.named is None


@settings(deadline=None)
@given(tables, st.sampled_from([None, Calibration(2, 0.5), Calibration(-3, 0.5)]))
def test_a_sure_mention_is_never_nil(kb, scores, calibration) -> None:
    links = link(
        Encoder(), index(scores), MENTIONS, 3,
        nil_threshold=0.6, sure=Sure(kb, 0.7), calibration=calibration,
        exact_names=SoleOwnersFirst(kb),
    )  # fmt: skip
    for i, surface in enumerate(SURFACES):
        owners = [n for n in range(7) if is_named(n, surface)]
        sure = owners == [links.numbers[i, 0]] and not is_acronym(surface)
        sure |= calibration is not None and links.probabilities[i] >= 0.7
        assert links.nil[i] == (max(scores[i]) < 0.6 and not sure)


class Backwards:
    """A reranker that likes best what the retriever found last."""

    def scores(self, mentions, numbers, found, kb, weight) -> np.ndarray:
        return np.tile(np.arange(numbers.shape[1], dtype=np.float32), (len(numbers), 1))


def test_with_a_reranker_names_are_weighed_against_its_scores(kb: KnowledgeBase) -> None:
    scores = [[0.9, 0.8, 0.7, 0.6, 0, 0, 0]] * 5
    reranking = Reranking(Backwards(), kb, 3)
    plain = link(Encoder(), index(scores), MENTIONS, 5, reranking=reranking)
    links = link(
        Encoder(),
        index(scores),
        MENTIONS,
        5,
        reranking=reranking,
        exact_names=ExactNameBonus(kb, 2.5),
    )
    assert plain.numbers[0].tolist() == [2, 1, 0, 3, 4]
    assert links.numbers[0].tolist() == [1, 0, 2, 3, 4]  # "MS" is a name of the first two
    # The atrium, "RA", was not reranked: it stays behind.
    assert links.numbers[1].tolist() == [2, 1, 0, 3, 4]
    for i in (0, 1):
        again = dict(zip(plain.numbers[i].tolist(), plain.rerank_scores[i].tolist()))
        expected = [again[number] for number in links.numbers[i].tolist()]
        assert links.rerank_scores[i].tolist() == pytest.approx(expected, nan_ok=True)


class Asked:
    """An index that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list = []

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        self.asked.append((np.flatnonzero(vectors.any(axis=0)).tolist(), only))
        number = len(self.asked)
        return Candidates(np.full((len(vectors), k), number), np.ones((len(vectors), k)))


def test_mentions_of_the_same_limits_are_searched_together() -> None:
    a, b = SearchFilter(types=("A",)), SearchFilter(types=("B",))
    asked = Asked()
    links = link(Encoder(), asked, MENTIONS, 2, filters=[a, None, b, a, None])
    assert asked.asked == [([0, 3], a), ([1, 4], None), ([2], b)]
    assert links.numbers[:, 0].tolist() == [1, 2, 3, 1, 2]


def test_what_an_acronym_is() -> None:
    assert all(map(is_acronym, ["MS", "CsA", "IL-6", "COPD", "NaCl"]))
    assert not any(map(is_acronym, ["Ms", "ms", "Na", "ASPIRIN", "M S", "Aspirin", "", "6"]))
