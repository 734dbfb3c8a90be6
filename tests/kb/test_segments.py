"""A KB of several segments against the plain dictionary that it should be like."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter, SemanticType
from spacy_pel.kb.records.names import normalised

from .examples import segmented_kb

WORDS = ("fever", "Fever", "été", "ete", "b-cell", "B cell", "日本", "+", "of")
TYPES = [
    SemanticType("Root", "T0", "A"), SemanticType("Two", "T2", "A2"),
    SemanticType("Child", "T3", "A2.2"), SemanticType("Leaf", "T4", "A2.2.1"),
    SemanticType("Twenty", "T5", "A2.20"), SemanticType("Other", "T6", "B1"),
]  # fmt: skip
BELOW = {
    "Root": {"Root", "Two", "Child", "Leaf", "Twenty"}, "Two": {"Two", "Child", "Leaf", "Twenty"},
    "Child": {"Child", "Leaf"}, "Leaf": {"Leaf"}, "Twenty": {"Twenty"}, "Other": {"Other"},
}  # fmt: skip

names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
entities = st.builds(
    lambda aliases, types, sources: Entity(
        "", aliases[0], tuple(aliases[1:]), tuple(types), sources=tuple(sources)
    ),
    st.lists(names, min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(sorted(BELOW)), max_size=2, unique=True),
    st.lists(st.sampled_from(["MSH", "NCI"]), max_size=2, unique=True),
)


@st.composite
def knowledge(draw: st.DrawFn) -> tuple[list[list[Entity]], set[str], dict[str, list[int]]]:
    """Segments, the ids that were removed from them, and a vector for each id; scores often tie."""
    ids = draw(st.lists(st.integers(0, 99), min_size=2, max_size=10, unique=True))
    made = [draw(entities)._replace(concept_id=f"C{id}") for id in ids]
    cut = draw(st.integers(1, len(made) - 1))
    removed = draw(st.sets(st.sampled_from([entity.concept_id for entity in made])))
    vectors = {
        e.concept_id: draw(st.lists(st.integers(0, 1), min_size=2, max_size=2)) for e in made
    }
    return [made[:cut], made[cut:]], removed, vectors


@given(knowledge(), st.sampled_from(WORDS), st.sampled_from(sorted(BELOW)), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_segments_and_removals_do_not_show(
    content: tuple[list[list[Entity]], set[str], dict[str, list[int]]],
    name: str,
    type: str,
    k: int,
) -> None:
    segments, removed, vectors = content
    live = {e.concept_id: e for each in segments for e in each if e.concept_id not in removed}
    with (
        tempfile.TemporaryDirectory() as folder,
        segmented_kb(
            Path(folder) / "kb", segments, removed=removed, vectors=vectors, types=TYPES
        ) as kb,
    ):
        check_records(kb, live, removed)
        assert kb.named(name) == sorted(
            e for e in live.values() if normalised(name) in map(normalised, e.names)
        )
        assert kb.named(name, exact=True) == sorted(e for e in live.values() if name in e.names)
        of_type = {id for id, e in live.items() if BELOW[type] & set(e.types)}
        assert ids(kb, kb.of_types(type)) == of_type
        chosen = of_type & set(sorted(live)[::2])
        only = SearchFilter(types=[type], ids=sorted(live)[::2])
        for allowed, constraint in ((set(live), None), (set(live), SearchFilter()), (chosen, only)):
            check_search(kb, {id: vectors[id] for id in allowed}, k, constraint)


def ids(kb: KnowledgeBase, numbers: np.ndarray) -> set[str]:
    assert numbers.dtype == np.int64 and (np.diff(numbers) > 0).all()
    return {id for id, _ in kb.labels(numbers)}


def check_records(kb: KnowledgeBase, live: dict[str, Entity], removed: set[str]) -> None:
    assert len(kb) == len(live) and {e.concept_id: e for e in kb} == live
    assert ids(kb, kb.numbers()) == set(live)
    assert kb.entities(kb.numbers()[::-1]) == list(kb)[::-1]
    for id, entity in live.items():
        assert kb[id] == entity and kb.labels([kb.number(id)]) == [(id, entity.canonical_name)]
    assert not any(id in kb for id in removed)
    for number in set(range(-1, 12)) - set(kb.numbers().tolist()):
        with pytest.raises(IndexError, match=f"number {number}"):
            kb.labels([number])


def check_search(kb: KnowledgeBase, allowed: dict, k: int, only: SearchFilter | None) -> None:
    queries = np.array([[1, 0], [1, 1], [-1, 0.5]], dtype=np.float32)
    found = kb.search(queries, k, only)
    assert found.numbers.shape == found.scores.shape == (3, k)
    for query, numbers, scores in zip(queries, found.numbers, found.scores):
        ranked = sorted((-float(query @ np.array(v)), id) for id, v in allowed.items())[:k]
        n = len(ranked)
        assert [id for id, _ in kb.labels(numbers[:n])] == [id for _, id in ranked]
        assert scores[:n].tolist() == [-score for score, _ in ranked]
        assert (numbers[n:] == -1).all() and np.isneginf(scores[n:]).all()


def test_ids_of_several_segments(tmp_path: Path) -> None:
    old = [Entity("C2", "two", alt_ids=("both", "C9")), Entity("C3", "three", alt_ids=("gone",))]
    new = [Entity("C1", "one", retired_ids=("both",)), Entity("C9", "nine")]
    kb = segmented_kb(tmp_path / "kb", [old, new], removed={"C3"})
    assert kb["both"].concept_id == "C1"  # the first by concept id, wherever it stands
    assert kb["C9"].canonical_name == "nine"  # a concept id goes first
    assert "gone" not in kb and kb.number("C3") is None
    assert kb.numbers().tolist() == [0, 2, 3]


def test_types_of_several_segments(tmp_path: Path) -> None:
    old, new = [Entity("C1", "one", types=("Child",))], [Entity("C2", "two", types=("New",))]
    kb = segmented_kb(tmp_path / "kb", [old, new], types=TYPES)
    assert kb.semantic_types == [*TYPES, SemanticType("New")]
    assert kb.of_types("New", "T2").tolist() == [0, 1]


def test_found_passes_over_removed_entities(tmp_path: Path) -> None:
    segments = [[Entity(f"C{i}", "fever") for i in range(5)], [Entity("D", "fever, high")]]
    kb = segmented_kb(tmp_path / "kb", segments, removed={"C0", "C1", "C4"})
    assert [e.concept_id for e in kb.found("FEVER", limit=3)] == ["C2", "C3", "D"]
    assert [e.concept_id for e in kb.found("FEVER", limit=1)] == ["C2"]


def test_a_kb_from_which_all_was_removed(tmp_path: Path) -> None:
    entities = [Entity("C1", "one"), Entity("C2", "two")]
    kb = segmented_kb(
        tmp_path / "kb", [entities[:1], entities[1:]], removed={"C1", "C2"},
        vectors={"C1": [1.0], "C2": [2.0]},
    )  # fmt: skip
    assert len(kb) == 0 and list(kb) == [] and kb.numbers().tolist() == []
    assert kb.search(np.ones((1, 1)), 2).numbers.tolist() == [[-1, -1]]
    empty = segmented_kb(tmp_path / "empty", [], vectors={"C1": [1.0]})
    assert len(empty) == 0 and empty.named("one") == [] and "C1" not in empty
    assert empty.search(np.ones((1, 1)), 2).numbers.tolist() == [[-1, -1]]
