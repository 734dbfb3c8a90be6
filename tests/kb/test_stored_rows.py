"""The stored rows of entities, wherever in the KB they stand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import add_entities, remove_entities, update_entities

from .examples import ENTITIES
from .living import NameRows, living_kb, name_vector

ROUNDING = {"float32": 1e-7, "float16": 1e-3, "int8": 1e-2}
WITHOUT = Entity("C5", "Not embedded")


class SomeRows(NameRows):
    """Has no rows for one entity."""

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        vectors, places = super().rows(entities)
        kept = np.array([entities[place] != WITHOUT for place in places], dtype=bool)
        return vectors[kept], places[kept]


@pytest.fixture(params=ROUNDING)
def kb(request, tmp_path: Path) -> KnowledgeBase:
    """Changed five times; C1 has changed, C10 is gone, C5 has no vectors."""
    folder = living_kb(tmp_path / "kb", ENTITIES, dtype=request.param)
    add_entities(folder, [Entity("A1", "Gout", ("Podagra", "gouty arthritis"))], NameRows())
    update_entities(folder, [Entity("C1", "Mitral stenosis", ("valve", "MS"))], NameRows())
    remove_entities(folder, ["C10"])
    add_entities(folder, [WITHOUT, Entity("C6", "Cough")], SomeRows())
    add_entities(folder, [Entity("A2", "Rest")], NameRows())
    return KnowledgeBase.open(folder)


def assert_rows(kb: KnowledgeBase, numbers: Sequence[int]) -> None:
    """That they are those of the names, entity by entity."""
    vectors, places = kb.rows(numbers)
    entities, rounding = kb.entities(numbers), ROUNDING[kb.settings["vectors"]["dtype"]]
    assert vectors.dtype == np.float32 and places.dtype == np.int64
    expected = [
        (place, name)
        for place, entity in enumerate(entities)
        if entity != WITHOUT
        for name in entity.names
    ]
    assert vectors.shape == (len(expected), kb.dim)
    assert places.tolist() == [place for place, _ in expected]
    for vector, (_, name) in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(vector, name_vector(name), atol=rounding)


def test_rows_are_in_the_order_of_the_numbers(kb: KnowledgeBase) -> None:
    numbers = kb.numbers()
    assert_rows(kb, numbers)
    assert_rows(kb, numbers[::-1])
    random = np.random.default_rng(0)
    for size in (1, 3, 20):
        for _ in range(5):
            assert_rows(kb, random.choice(numbers, size))
    some = [kb.number(id) for id in ("C6", "C2", "C6", "A1", "C2")]  # a list, with repeats
    assert_rows(kb, some)
    assert_rows(kb, [])
    kb.close()
    assert_rows(kb, kb.numbers())  # opens again


def test_an_entity_without_vectors_has_no_row(kb: KnowledgeBase) -> None:
    number = kb.number("C5")
    vectors, places = kb.rows([number])
    assert vectors.shape == (0, 8) and places.tolist() == []
    assert_rows(kb, [number, kb.number("C6"), number, kb.number("C1")])
