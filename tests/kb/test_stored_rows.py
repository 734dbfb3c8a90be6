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


@pytest.mark.parametrize("dtype", ROUNDING)
def test_rows_are_in_the_order_of_the_numbers(tmp_path: Path, dtype: str) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES, dtype=dtype)
    add_entities(folder, [Entity("A1", "Gout", ("Podagra", "gouty arthritis"))], NameRows())
    update_entities(folder, [Entity("C1", "Mitral stenosis", ("valve", "MS"))], NameRows())
    remove_entities(folder, ["C10"])
    add_entities(folder, [WITHOUT, Entity("C6", "Cough")], SomeRows())
    kb = KnowledgeBase.open(folder)
    random, all_ = np.random.default_rng(0), kb.numbers()
    some = [kb.number(id) for id in ("C6", "C2", "C5", "A1", "C2")]  # a list, with repeats
    drawn = [random.choice(all_, size) for size in (1, 3, 20)]
    for numbers in (all_, all_[::-1], some, [kb.number("C5")], [], *drawn):
        vectors, places = kb.rows(numbers)
        expected = [
            (place, name)
            for place, entity in enumerate(kb.entities(numbers))
            if entity != WITHOUT
            for name in entity.names
        ]
        assert vectors.dtype == np.float32 and places.dtype == np.int64
        assert vectors.shape == (len(expected), kb.dim)
        assert places.tolist() == [place for place, _ in expected]
        for vector, (_, name) in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(vector, name_vector(name), atol=ROUNDING[dtype])
        kb.close()  # it opens again
