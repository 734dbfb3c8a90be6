"""Segments that become one, and how many there may be."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.compaction import compact, first_to_fold
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities, update_entities
from spacy_pel.kb.writing.vector_writing import EXACT_ROWS

from ..examples import ENTITIES, contents
from ..living import NameRows, assert_holds, living_kb


def numbered(first: int, last: int) -> list[Entity]:
    return [Entity(f"N{i:04}", f"name {i}", (f"alias {i}",)) for i in range(first, last)]


def test_a_compacted_kb_is_the_one_built_of_its_contents(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    add_entities(folder, numbered(0, 20), NameRows())
    update_entities(folder, [Entity("C2", "Else"), Entity("N0003", "Three")], NameRows())
    remove_entities(folder, ["C3", "N0011"])
    assert len(KnowledgeBase.open(folder).segments) > 1
    compact(folder)
    with KnowledgeBase.open(folder) as kb:
        living_kb(tmp_path / "fresh", reversed(list(kb)))
    assert contents(folder) == contents(tmp_path / "fresh")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_vectors_stay_the_same(tmp_path: Path, dtype: str) -> None:
    folder = living_kb(tmp_path / "kb", numbered(0, 40), dtype=dtype)
    add_entities(folder, numbered(40, 60), NameRows())
    remove_entities(folder, [f"N{i:04}" for i in range(0, 60, 7)])
    queries, _ = NameRows().rows(numbered(0, 10))
    answers = []
    for kb in (KnowledgeBase.open(folder), compact(folder)):
        found = kb.search(queries, 10)
        answers.append((found.scores, [kb.labels(numbers) for numbers in found.numbers]))
        assert kb.manifest["vectors"]["dtype"] == dtype
        kb.close()
    assert answers[0][1] == answers[1][1]
    np.testing.assert_allclose(answers[0][0], answers[1][0], rtol=1e-6)


def test_the_memory_of_an_index_is_remembered(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", numbered(0, 40), index="approximate", memory=1500)
    add_entities(folder, numbered(40, 60), NameRows())
    index = compact(folder).manifest["segments"][0]["vectors"]["index"]
    assert (index["kind"], index["memory"]) == ("PQ4", 1500)


def test_a_kb_that_has_grown_has_the_index_of_one_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXACT_ROWS, "auto", 50)
    for index, expected in (("auto", True), ("exact", False)):
        folder = living_kb(tmp_path / index, numbered(0, 20), index=index)
        add_entities(folder, numbered(20, 40), NameRows())
        found = compact(folder).manifest["segments"][0]["vectors"]["index"]
        assert (found is not None) == expected


def test_nothing_to_compact(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    before = contents(folder)
    compact(folder)
    assert contents(folder) == before


def test_progress_wraps_the_entities(tmp_path: Path) -> None:
    folder = build_kb(ENTITIES, tmp_path / "kb").path
    remove_entities(folder, ["C1"])
    seen = []
    compact(folder, progress=lambda entities: (seen.append(e.concept_id) or e for e in entities))
    assert seen == ["C10", "C2", "C3"]


def test_an_interrupted_compaction_changes_nothing(tmp_path: Path) -> None:
    def interrupted(entities):
        yield next(iter(entities))
        raise KeyboardInterrupt

    folder = living_kb(tmp_path / "kb", ENTITIES)
    remove_entities(folder, ["C1"])
    before = contents(folder)
    with pytest.raises(KeyboardInterrupt):
        compact(folder, progress=interrupted)
    assert contents(folder) == before


def test_many_small_changes_leave_few_segments(tmp_path: Path) -> None:
    base = numbered(0, 30)
    folder = living_kb(tmp_path / "kb", base)
    with KnowledgeBase.open(folder) as kb:
        first = kb.segments[0].entry["records"]
    most = 0
    for number in range(30, 46):
        add_entities(folder, numbered(number, number + 1), NameRows())
        with KnowledgeBase.open(folder) as kb:
            most = max(most, len(kb.segments))
            assert kb.segments[0].entry["records"] == first
    assert 2 < most <= 2 + math.log2(16)
    assert_holds(folder, numbered(0, 46))
    assert verify(folder) == []


def test_segments_of_which_nothing_is_left_go(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", numbered(0, 5))
    add_entities(folder, numbered(5, 8), NameRows())
    remove_entities(folder, [entity.concept_id for entity in numbered(0, 5)])
    with KnowledgeBase.open(folder) as kb:
        assert len(kb.segments) == 1
    assert_holds(folder, numbered(5, 8))


@pytest.mark.parametrize("seed", range(20))
def test_folding_keeps_the_number_of_segments_logarithmic(seed: int) -> None:
    """The rule alone, for changes of any sizes."""
    chance = random.Random(seed)
    lives = [1]  # smaller than what comes, and yet never folded
    for _ in range(300):
        lives.append(chance.choice([1, 2, 10, 500]))
        place = first_to_fold(lives)
        if place < len(lives):
            assert place > 0 and len(lives) - place > 1
            lives[place:] = [sum(lives[place:])]
        assert first_to_fold(lives) == len(lives)
        assert len(lives) <= 3 + math.log2(sum(lives))
