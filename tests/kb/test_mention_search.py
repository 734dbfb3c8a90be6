"""Search by names and learnt mentions: filters, several sources, and which mention was nearest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import KnowledgeBase, SearchFilter
from spacy_pel.kb.change import remove_entities
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.mention_changes import set_mention_weight
from spacy_pel.kb.mentions import SHARPNESS, NearMentions, mention_pairs
from spacy_pel.kb.vector_writing import reduce_vectors
from spacy_pel.kb.vectors.index import VectorIndex

from .examples import ENTITIES
from .learnt import WEIGHT, learn, scored
from .living import living_kb, name_vector

LEARNT = {"a": [("spectra", "C2"), ("spectra", "C3"), ("plaques", "C3")], "b": [("scan", "C1")]}
WORDS = ["spectra", "plaques", "scan", "other"]


def learnt_kb(folder: Path) -> Path:
    living_kb(folder, ENTITIES)
    for source, mentions in LEARNT.items():
        learn(folder, source, mentions)
    set_mention_weight(folder, WEIGHT)
    return folder


def test_a_filter_holds_for_mentions_too(tmp_path: Path) -> None:
    folder = learnt_kb(tmp_path / "kb")
    queries = np.array([name_vector(word) for word in WORDS])
    allowed = [entity for entity in ENTITIES if "Disease" in entity.types]
    with KnowledgeBase.open(folder) as kb:
        found = kb.search(queries, 4, only=SearchFilter(types=["Disease"]))
        for query, numbers, scores in zip(queries, found.numbers, found.scores):
            wanted = scored(allowed, LEARNT, query, WEIGHT)
            got = {id: s for (id, _), s in zip(kb.labels(numbers[numbers >= 0]), scores)}
            assert got.keys() == wanted.keys()
            np.testing.assert_allclose([got[id] for id in wanted], list(wanted.values()), atol=1e-5)


def test_what_a_filter_allows_is_derived_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected = []

    def counted(index: VectorIndex, allowed: np.ndarray, derived=VectorIndex._selection):
        kept = index._remembered is not None and index._remembered[0] is allowed
        selected.append(kept)
        return derived(index, allowed)

    monkeypatch.setattr(VectorIndex, "_selection", counted)
    diseases, chemicals = SearchFilter(types=["Disease"]), SearchFilter(ids=["C1"])
    query = name_vector("spectra")[None]
    with KnowledgeBase.open(learnt_kb(tmp_path / "kb")) as kb:
        first = kb.search(query, 4, only=diseases)
        assert selected == [False] * 2  # names and mentions
        again = kb.search(query, 4, only=diseases)
        assert selected[2:] == [True] * 2
        other = kb.search(query, 4, only=chemicals)  # another filter is not mistaken for it
        assert other.numbers[0, 0] != first.numbers[0, 0] and other.numbers[0, 1] == -1
        back = kb.search(query, 4, only=diseases)
        for found in (again, back):
            np.testing.assert_array_equal(found.numbers, first.numbers)
            np.testing.assert_array_equal(found.scores, first.scores)


def test_the_answer_to_a_query_does_not_depend_on_the_others(tmp_path: Path) -> None:
    queries = np.array([name_vector(word) for word in WORDS])
    with KnowledgeBase.open(learnt_kb(tmp_path / "kb")) as kb:
        together = kb.search(queries, 3)
        for i, query in enumerate(queries):
            alone = kb.search(query[None], 3)
            np.testing.assert_array_equal(alone.scores[0], together.scores[i])
            np.testing.assert_array_equal(alone.numbers[0], together.numbers[i])
        assert kb.search(queries[:0], 3).numbers.shape == (0, 3)


def test_the_mention_that_a_candidate_was_found_by(tmp_path: Path) -> None:
    folder = learnt_kb(tmp_path / "kb")
    remove_entities(folder, ["C2"])
    with KnowledgeBase.open(folder) as kb:
        numbers = np.array([[kb.number("C3"), kb.number("C1"), -1]])
        rows = kb.mentions.nearest_of(name_vector("plaques")[None], numbers)
        assert rows[0, 2] == -1
        (source, mention), *_ = kb.mentions.described(rows[0, :1])
        assert source == "a" and mention.text[mention.start : mention.stop] == "plaques"
        rows = kb.mentions.nearest_of(name_vector("scan")[None], numbers)
        assert kb.mentions.described(rows[0, 1:2])[0][0] == "b"


def test_closeness_adds_up() -> None:
    near = NearMentions(
        np.array([[0.9, 0.8, 0.7], [0.5, -np.inf, -np.inf]], dtype=np.float32),
        np.array([[4, 2, 4], [2, -1, -1]]),
        np.array([[0, 1, 2], [1, -1, -1]]),
    )
    lines, numbers, closeness = mention_pairs(near)
    assert lines.tolist() == [0, 0, 1] and numbers.tolist() == [2, 4, 2]
    both = np.log(np.exp(SHARPNESS * 0.9) + np.exp(SHARPNESS * 0.7)) / SHARPNESS
    np.testing.assert_allclose(closeness, [0.8, both, 0.5], atol=1e-6)


def test_shorter_vectors_leave_mentions_as_they_are(tmp_path: Path) -> None:
    folder = learnt_kb(tmp_path / "kb")
    reduce_vectors(folder, 7)[0].close()
    assert verify(folder) == []
    with KnowledgeBase.open(folder) as kb:
        assert kb.mentions.counts() == {"a": 3, "b": 1}
        found = kb.search(name_vector("plaques")[None], 1)
        assert kb.labels(found.numbers[0])[0][0] == "C3"
