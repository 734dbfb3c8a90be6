import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.kb import Entity, SearchFilter, build_kb
from spacy_pel.kb.records.names import normalised
from spacy_pel.kb.vectors.index import Candidates, VectorIndex
from spacy_pel.linking.link import LinkOptions, link
from spacy_pel.linking.nil import NilPolicy, is_nil
from spacy_pel.linking.ordering import (
    Ordered,
    Reranking,
    is_acronym,
    unambiguous_names_first,
    with_owners,
)
from spacy_pel.text.mention_inputs import MentionInContext

from ..conftest import ENTITIES


class Encoder:
    """Gives mention i the vector i of some; without any, that of its place."""

    def __init__(self, vectors: np.ndarray | None = None) -> None:
        self.vectors = vectors

    def predict(self, mentions) -> np.ndarray:
        return np.eye(len(mentions), dtype=np.float32) if self.vectors is None else self.vectors


class FixedCandidates:
    """An index that finds these candidates [n, k]."""

    def __init__(self, numbers, scores) -> None:
        self.numbers, self.scores = np.array(numbers), np.array(scores, dtype=np.float32)

    def search(self, vectors: np.ndarray, k: int) -> Candidates:
        return Candidates(self.numbers[:, :k], self.scores[:, :k])


class ByTable:
    """A reranker that looks scores up, by mention and number; it is given mentions 0, 1, 2, ..."""

    def __init__(self, table) -> None:
        self.table = np.array(table, dtype=np.float32)

    def scores(self, mentions, numbers, found, kb) -> np.ndarray:
        found = np.take_along_axis(self.table[mentions], np.maximum(numbers, 0), axis=1)
        return np.where(numbers < 0, np.float32(-np.inf), found)


class Labels:
    """A KB whose ids are in the order of the numbers, or in the opposite one."""

    def __init__(self, descend: bool = False) -> None:
        self.descend = descend

    def labels(self, numbers) -> list[tuple[str, str]]:
        return [(f"C{99 - n if self.descend else n:02}", "name") for n in numbers]


def test_entities_with_the_name_are_candidates() -> None:
    class Named:
        """A KB in which "lung" is a name of 7 and 2, and the score of each entity is its number."""

        vectors = property(lambda self: self)

        def numbers_of_names(self, names: list[str]) -> list[np.ndarray]:
            return [np.array([2, 7] if name == "lung" else [], np.int64) for name in names]

        def allowed(self, only: str | None) -> np.ndarray | None:
            return None if only is None else np.arange(9) < 5

        def name_scores(self, vectors, lines, numbers) -> np.ndarray:
            return np.array(numbers, np.float32)

    mentions = [MentionInContext(word, 0, 4) for word in ("lung", "mice")]
    numbers = [[5, 6, 4, 2, 3], [1, 3, 4, 5, 6]]
    candidates = Candidates(np.array(numbers), np.array(numbers, np.float32))
    moved = with_owners(Named(), mentions, np.zeros((2, 1), np.float32), candidates, 3)
    assert moved.numbers.tolist() == [[5, 2, 7, 6, 4], numbers[1]]
    np.testing.assert_array_equal(moved.scores, moved.numbers)
    queries = np.zeros((2, 1), np.float32)
    filtered = with_owners(Named(), mentions, queries, candidates, 3, ["below 5", None])
    assert filtered.numbers.tolist() == [[5, 6, 2, 4, 3], numbers[1]]


NIL_SCORES = st.lists(st.floats(-2, 2, width=32) | st.sampled_from([-math.inf, math.inf]))


@given(NIL_SCORES, st.floats(-2, 2), st.sampled_from([list, np.float32, np.float64]))
def test_below_the_threshold_is_nil(scores, threshold, kind) -> None:
    given_as = scores if kind is list else np.array(scores, dtype=kind)
    decided = is_nil(given_as, threshold)
    assert decided.dtype == bool and decided.shape == (len(scores),)
    assert decided.tolist() == [score < threshold for score in scores]


SURFACES = ["ms", "RA", "Head-pain", "multiple  sclerosis", "nothing"]
MENTIONS = [MentionInContext(f"a {s} b", 2, 2 + len(s)) for s in SURFACES]


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


@given(tables, st.integers(1, 7))
def test_a_sole_owner_comes_first_and_all_else_stays(whole_kb, scores, k) -> None:
    links = link(
        Encoder(), index(scores), MENTIONS, k,
        LinkOptions(nil_threshold=0.3, ordering=partial(unambiguous_names_first, whole_kb)),
    )  # fmt: skip
    for i, (surface, row) in enumerate(zip(SURFACES, scores)):
        owners = [n for n in range(7) if is_named(n, surface)]
        found = sorted(range(7), key=lambda n: -row[n])
        if len(owners) == 1 and not is_acronym(surface):
            found.sort(key=lambda n: n not in owners)
        assert links.numbers[i].tolist() == found[:k]
        assert links.scores[i].tolist() == [np.float32(row[n]) for n in found[:k]]
        assert links.nil[i] == (max(row) < 0.3)


def backwards(chance: float):
    """An ordering that likes best what was found last; the first is right with a fixed chance."""

    def ordered(found) -> Ordered:
        numbers = found.candidates.numbers
        order = np.argsort(numbers < 0, kind="stable")
        order[:, :7] = order[:, 6::-1]
        probabilities = np.full(numbers.shape, np.nan, np.float32)
        probabilities[:, 0] = chance
        return Ordered(order, probabilities, np.full(len(order), np.float32(0.5)))

    return ordered


@given(tables)
def test_an_ordering_decides_on_order_probability_and_nil(scores) -> None:
    plain = link(Encoder(), index(scores), MENTIONS, 7)
    for threshold in (0.4, 0.6):
        links = link(
            Encoder(),
            index(scores),
            MENTIONS,
            2,
            LinkOptions(ordering=backwards(0.3), nil_threshold=threshold),
        )
        assert links.numbers.tolist() == plain.numbers[:, :-3:-1].tolist()
        assert links.scores.tolist() == plain.scores[:, :-3:-1].tolist()
        assert links.probabilities[:, 0].tolist() == [np.float32(0.3)] * 5
        assert links.nil.tolist() == [threshold > 0.5] * 5


@given(tables, st.sampled_from([None, 0.3, 0.7, 0.8]))
def test_what_is_sure_is_never_nil(whole_kb, scores, chance) -> None:
    ordering = partial(unambiguous_names_first, whole_kb) if chance is None else backwards(chance)
    links = link(
        Encoder(), index(scores), MENTIONS, 3,
        LinkOptions(nil_threshold=0.6, nil_policy=NilPolicy(whole_kb, 0.69), ordering=ordering),
    )  # fmt: skip
    for i, surface in enumerate(SURFACES):
        owners = [n for n in range(7) if is_named(n, surface)]
        sure = owners == [links.numbers[i, 0]] and not is_acronym(surface)
        sure |= chance is not None and chance >= 0.69
        below = chance is not None or max(scores[i]) < 0.6
        assert links.nil[i] == (below and not sure)


def test_a_name_of_several_entities_is_not_nil_in_a_kb_with_word_forms(tmp_path) -> None:
    cold, others = (
        Entity("C1", "common cold", ("cold",)),
        [Entity("C3", "heat"), Entity("C4", "MS")],
    )
    entities = [
        cold,
        Entity("C2", "low temperature", ("cold",)),
        *others,
        Entity("C5", "MS scan", ("MS",)),
    ]
    mentions = [MentionInContext(words, 0, len(words)) for words in ("Colds", "cool", "MS")]
    given = FixedCandidates([[2, 1, 0], [2, 1, 0], [3, 4, 2]], [[0.3, 0.2, 0.1]] * 3)
    for word_forms, first in ((True, [1, 2, 3]), (False, [2, 2, 3])):
        kb = build_kb(entities, tmp_path / str(word_forms), word_forms=word_forms)
        ordering = partial(unambiguous_names_first, kb)
        options = LinkOptions(nil_threshold=0.6, nil_policy=NilPolicy(kb, 0.5), ordering=ordering)
        links = link(Encoder(), given, mentions, 3, options)
        assert links.numbers[:, 0].tolist() == first
        assert links.nil.tolist() == [not word_forms, True, True]


class Asked:
    """An index that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list = []

    def search(self, vectors: np.ndarray, k: int, only: SearchFilter | None = None) -> Candidates:
        self.asked.append((np.flatnonzero(vectors.any(axis=0)).tolist(), only))
        number = len(self.asked)
        return Candidates(np.full((len(vectors), k), number), np.ones((len(vectors), k)))


@pytest.mark.parametrize("groups", [None, np.array([1, 3, 2, 1, 3])])
def test_mentions_of_the_same_limits_are_searched_together(groups) -> None:
    a, b = SearchFilter(types=("A",)), SearchFilter(types=("B",))
    asked = Asked()
    links = link(
        Encoder(), asked, MENTIONS, 2, LinkOptions(filters=[a, None, b, a, None], groups=groups)
    )
    assert sorted(asked.asked) == [([0, 3], a), ([1, 4], None), ([2], b)]
    first = links.numbers[:, 0].tolist()
    assert first[0] == first[3] and first[1] == first[4] and len(set(first)) == 3


def test_what_an_acronym_is() -> None:
    assert all(map(is_acronym, ["MS", "CsA", "IL-6", "COPD", "NaCl"]))
    assert not any(map(is_acronym, ["Ms", "ms", "Na", "ASPIRIN", "M S", "Aspirin", "", "6"]))


WIDTH = 6


@st.composite
def rerankings(draw):
    """Candidates of some mentions, best first, and what a reranker says; with ties in both."""
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        numbers = draw(st.permutations(range(WIDTH)))[: draw(st.integers(0, WIDTH))]
        cosines = sorted((draw(st.sampled_from([0.1, 0.5, 0.9])) for _ in numbers), reverse=True)
        again = [draw(st.sampled_from([-90.0, -1.0, 0.0, 2.5, 80.0])) for _ in range(WIDTH)]
        rows.append((list(numbers), cosines, again))
    return rows, draw(st.integers(1, WIDTH)), draw(st.integers(1, WIDTH))


def naive_reranking(numbers, cosines, again, top: int):
    """[(number, cosine, log-probability or None)] by sorting."""
    first = [(number, cosine, again[number]) for number, cosine in zip(numbers, cosines)][:top]
    first.sort(key=lambda candidate: (-candidate[2], -candidate[0]))  # ids descend with numbers
    total = math.log(sum(math.exp(score) for *_, score in first)) if first else 0
    return [(n, c, s - total) for n, c, s in first] + [
        (n, c, None) for n, c in zip(numbers[top:], cosines[top:])
    ]


@given(rerankings())
def test_the_order_of_reranking_is_that_of_a_naive_sort(problem):
    rows, k, top = problem
    depth = max(k, top)
    numbers = np.full((len(rows), depth), -1)
    cosines = np.full((len(rows), depth), -np.inf, dtype=np.float32)
    for i, (found, scores, _) in enumerate(rows):
        found, scores = found[:depth], scores[:depth]
        numbers[i, : len(found)], cosines[i, : len(found)] = found, scores
    reranking = Reranking(ByTable([again for *_, again in rows]), Labels(descend=True), top)
    index = FixedCandidates(numbers, cosines)
    mentions = np.arange(len(rows))
    links = link(Encoder(), index, mentions, k, LinkOptions(reranking=reranking, nil_threshold=0.3))
    for i, (found, scores, again) in enumerate(rows):
        expected = naive_reranking(found[:depth], scores[:depth], again, top)[:k]
        assert links.numbers[i].tolist() == [n for n, *_ in expected] + [-1] * (k - len(expected))
        for j, (_, cosine, score) in enumerate(expected):
            assert links.scores[i, j] == np.float32(cosine)
            got = links.rerank_scores[i, j]
            assert np.isnan(got) if score is None else got == pytest.approx(score, abs=1e-4)
        assert np.isnan(links.rerank_scores[i, len(expected) :]).all()
        assert np.isneginf(links.scores[i, len(expected) :]).all()
        # The retriever decides on NIL, whatever comes first.
        assert links.nil[i] == (not scores or scores[0] < 0.3)


N_ENTITIES, DIM = 6, 3
# Binary fractions, whose means of up to four are exact: ties are ties in any arithmetic.
EXACT = st.integers(-8, 8).map(lambda n: n / 8)
GROUPS = st.lists(st.integers(0, 1), min_size=4, max_size=4).map(
    lambda groups: groups if sum(groups) in (0, 2, 4) else [5, 3, 4, 5]  # of one, two or four
)


def arrays(shape: tuple[int, ...]):
    size = int(np.prod(shape))
    return st.lists(EXACT, min_size=size, max_size=size).map(
        lambda values: np.array(values, dtype=np.float32).reshape(shape)
    )


problems = st.tuples(arrays((4, DIM)), arrays((N_ENTITIES, DIM)), arrays((4, N_ENTITIES)), GROUPS)


def by_mean(table: np.ndarray, groups: list[int], mention: int) -> list[float]:
    """The mean score of each entity, of the mentions in the mention's group."""
    members = [i for i in range(len(groups)) if groups[i] == groups[mention]]
    return [sum(float(table[i, j]) for i in members) / len(members) for j in range(table.shape[1])]


@given(problems, st.integers(1, N_ENTITIES), st.booleans())
def test_a_group_is_ranked_by_the_means_of_its_scores(problem, k, reranked) -> None:
    mentions, entities, table, groups = problem
    index = VectorIndex.from_vectors(entities, np.arange(N_ENTITIES))
    links = link(
        Encoder(mentions),
        index,
        np.arange(4),
        k,
        LinkOptions(
            nil_threshold=0.25,
            reranking=Reranking(ByTable(table), Labels(), N_ENTITIES) if reranked else None,
            groups=np.array(groups),
        ),
    )
    for mention in range(4):
        scores = by_mean(mentions @ entities.T, groups, mention)
        nil_score = by_mean(table, groups, mention) if reranked else scores
        found = sorted(range(N_ENTITIES), key=lambda j: (-scores[j], j))
        order = sorted(found, key=lambda j: (-nil_score[j], j))[:k]
        assert links.numbers[mention].tolist() == order
        assert links.scores[mention].tolist() == [scores[j] for j in order]
        assert links.nil[mention] == (max(scores) < 0.25)
