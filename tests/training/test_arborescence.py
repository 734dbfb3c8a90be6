"""Gold clusters: their arborescences against the paper's deletions, and what a batch reads of them."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.text.mention_inputs import GoldMention, MentionInContext
from spacy_pel.training.arborescence import ENTITY, Arborescence, gold_tree
from spacy_pel.training.pool import GoldMentionIndex

from ..towers import TEXTS, mention, retriever

Edge = tuple[int, int]


def reached(edges: set[Edge]) -> set[int]:
    """The nodes to which a way leads from the entity."""
    found, before = {ENTITY}, None
    while found != before:
        before = set(found)
        found |= {v for u, v in edges if u in found}
    return found


def after_deletions(mentions: np.ndarray, rows: np.ndarray) -> list[int]:
    """ArboEL, 2.3, word for word; a brute force of O(E^2)."""
    n = len(mentions)
    scores = {(u, v): float(mentions[u] @ mentions[v]) for u, v in permutations(range(n), 2)}
    scores |= {(ENTITY, v): max(float(row @ mentions[v]) for row in rows) for v in range(n)}
    edges = set(scores)
    # The worst first; of equal ones the one whose ends have the higher numbers.
    for edge in sorted(scores, key=lambda e: (-scores[e], min(e), max(e)), reverse=True):
        if edge[1] in reached(edges - {edge}):
            edges.remove(edge)
    sources = {v: u for u, v in edges}
    assert len(edges) == len(sources) == n
    return [sources[v] for v in range(n)]


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 10_000), st.booleans())
def test_a_tree_is_what_the_deletions_leave(n: int, r: int, seed: int, has_ties: bool) -> None:
    rng = np.random.default_rng(seed)
    draw = (lambda s: rng.integers(-1, 2, s)) if has_ties else (lambda s: rng.normal(size=s))
    mentions, rows = draw((n, 2)).astype(np.float64), draw((r, 2)).astype(np.float64)
    assert gold_tree(mentions, rows).tolist() == after_deletions(mentions, rows)


def gold(document: int, surface: str, *golds: int) -> GoldMention:
    return GoldMention(mention(TEXTS[document], surface), golds, TEXTS[document])


# Entity 0 has three mentions, of which one may mean 1 as well; 2 and 3 have one mention each.
MENTIONS = [
    gold(0, "MS", 0),
    gold(0, "Multiple sclerosis", 0),
    gold(1, "MS", 1),
    gold(1, "spectrum", 1, 0),
    gold(2, "Mitral stenosis", 2),
    gold(3, "Aspirin", 3),
]
CLUSTERS = {0: [0, 1, 3], 1: [2, 3], 2: [4], 3: [5]}


def others_of(number: int, vectors: np.ndarray) -> list[int]:
    """The mentions of other entities, the nearest first."""
    golds = set(MENTIONS[number].golds)
    others = [k for k in range(6) if not set(MENTIONS[k].golds) & golds]
    return sorted(others, key=lambda k: -float(vectors[number] @ vectors[k]))


def test_clusters_have_each_name_of_a_document_once() -> None:
    again = GoldMention(MentionInContext(TEXTS[0].lower(), 20, 22), (0,), TEXTS[0])
    known = GoldMentionIndex([*MENTIONS, again, MENTIONS[4]], retriever())
    assert known.mentions == MENTIONS
    assert known.numbers_of([again, MENTIONS[4], MENTIONS[2]]) == [0, 4, 2]
    assert {entity: known.clusters[entity].tolist() for entity in range(4)} == CLUSTERS
    with pytest.raises(PelError, match='"Aspirin" is none of the 6 mentions at the start of tr'):
        known.numbers_of([MENTIONS[0], MENTIONS[5]._replace(golds=(2,))])


def encoded(mentions: list[GoldMention]) -> GoldMentionIndex:
    known = GoldMentionIndex(mentions, retriever())
    known.refresh(1)
    return known


def test_the_nearest_mentions_of_other_entities_are_those_of_brute_force() -> None:
    known = encoded(MENTIONS)
    for n in (0, 1, 2, 9):
        for number, found in enumerate(known.nearest_others(range(6), n)):
            assert found == others_of(number, known.vectors)[:n]
    copies = [gold(0, "MS", entity) for entity in range(5)]
    assert encoded(copies).nearest_others([2], 3) == [[0, 1, 3]]  # by number


class FixedPool:
    """The mentions with fixed vectors, and rows of two entities."""

    def __init__(self) -> None:
        self.mentions = GoldMentionIndex(MENTIONS, retriever())
        self.mentions.vectors = np.random.default_rng(3).normal(size=(6, 3))
        self.mined = self
        self.ages: list[int] = []

    def rows_of(self, entity: int) -> np.ndarray:
        rows = {0: [[1.0, 0.0, 0.1]], 1: [[0.0, 1.0, 0.0], [0.3, 0.3, 0.3]]}
        return np.array(rows.get(entity, [[1.0, 1.0, 1.0]]))

    def refresh_every(self, steps: int) -> None:
        self.ages.append(steps)


POOL = FixedPool()


def sources(chooser: Arborescence, numbers: list[int], seed: int = 0) -> list[int]:
    """The number of each mention's positive, or ENTITY."""
    edges = chooser(numbers, POOL, np.random.default_rng(seed))
    read = [*numbers, *edges.others]
    assert len(set(read)) == len(set(numbers)) + len(edges.others)
    return [ENTITY if place == ENTITY else read[place] for place in edges.positive]


def expected(number: int, members: list[int]) -> int:
    """By the paper's deletions."""
    vectors, rows = POOL.mentions.vectors, POOL.rows_of(MENTIONS[number].golds[0])
    found = after_deletions(vectors[members], rows)[members.index(number)]
    return ENTITY if found == ENTITY else members[found]


def test_positives_are_the_sources_of_edges() -> None:
    numbers = [*range(6), 0]
    clusters = [CLUSTERS[MENTIONS[n].golds[0]] for n in numbers]
    found = sources(Arborescence(refresh=9), numbers)
    assert found == [expected(n, cluster) for n, cluster in zip(numbers, clusters)]
    assert POOL.ages == [9]
    assert found[5] == ENTITY and len(set(found)) > 2  # mentions as well as the entity
    random = {tuple(sources(Arborescence("random"), numbers, seed)) for seed in range(40)}
    for place, (number, cluster) in enumerate(zip(numbers, clusters)):
        others = [k for k in cluster if k != number]
        vectors = POOL.mentions.vectors
        others.sort(key=lambda k: -vectors[k] @ vectors[number])
        pairs = [expected(number, sorted([number, other])) for other in others] or [ENTITY]
        assert sources(Arborescence("nearest"), numbers)[place] == pairs[0]
        assert {one[place] for one in random} == set(pairs)
