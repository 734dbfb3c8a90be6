"""Entities are chosen by their types."""

from __future__ import annotations

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers.build_from_sources import of_types
from spacy_pel.kb.records.semantic_types import SemanticType

TYPES = [
    SemanticType("Organism", "T001", "A1.1"),
    SemanticType("Fish", "T013", "A1.1.3"),
    SemanticType("Food", "T168", "A1.4"),
]
ENTITIES = [
    Entity("1", "cod", types=("Fish", "Food")),
    Entity("2", "shark", types=("Fish",)),
    Entity("3", "bread", types=("Food",)),
    Entity("4", "rain", types=("weather",)),
    Entity("5", "thing"),
]


@pytest.mark.parametrize(
    "kept, left_out, ids",
    [
        ([], [], "12345"),
        (["Organism"], [], "12"),
        (["T001"], [], "12"),
        (["A1.1"], [], "12"),
        (["Food", "weather"], [], "134"),
        (["Food"], ["Fish"], "3"),
        ([], ["T001", ""], "34"),
        ([""], [], "5"),
    ],
)
def test_who_is_kept(kept: list[str], left_out: list[str], ids: str) -> None:
    found = of_types(iter(ENTITIES), TYPES, kept, left_out)
    assert "".join(entity.concept_id for entity in found) == ids


@pytest.mark.parametrize("kept, left_out", [(["Bird"], []), (["Food"], ["fish"])])
def test_a_type_that_no_entity_has(kept: list[str], left_out: list[str]) -> None:
    with pytest.raises(PelError, match="the type '(Bird|fish)'; choose of: Fish, Food, weather"):
        list(of_types(ENTITIES, TYPES, kept, left_out))
