"""What linking writes of the entity beside its id: types, and codes in other vocabularies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.link import Links
from spacy_pel.pipeline.annotations import Answer, answers

ENTITIES = [
    Entity(
        "C1", "multiple sclerosis", types=("Disease", "T047"), xrefs=("ICD10CM:G35", "icd10cm:G36")
    ),
    Entity("C2", "headache", alt_ids=("ICD10CM:R51",), xrefs=("SNOMEDCT_US:25064002", "ICD10:R51")),
]
CODES = ["ICD10CM", "SNOMEDCT_US"]


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path / "kb")


def answered(kb: KnowledgeBase, numbers: list[list[int]], nil: list[bool], *rest) -> list[Answer]:
    shown = np.array(numbers).reshape(len(nil), -1)
    scores = np.where(shown < 0, -np.inf, 0.5)
    links = Links(shown, scores, np.array(nil), None, None, None)
    return list(answers(links, kb, shown >= 0, *rest))


def test_types_and_codes_are_those_of_the_entity_that_is_named(kb: KnowledgeBase) -> None:
    first, second, nil, none = answered(
        kb, [[0, 1], [1, 0], [0, 1], [-1, -1]], [False, False, True, False], CODES
    )
    assert (first.id, first.types) == ("C1", ["Disease", "T047"])
    assert first.xrefs == {"ICD10CM": ["G35", "G36"], "SNOMEDCT_US": []}
    assert second.xrefs == {"ICD10CM": ["R51"], "SNOMEDCT_US": ["25064002"]}
    nothing = {"ICD10CM": [], "SNOMEDCT_US": []}
    assert [(a.id, a.types, a.xrefs) for a in (nil, none)] == [
        ("NIL", [], nothing),
        ("", [], nothing),
    ]


def test_without_vocabularies_there_are_types_alone(kb: KnowledgeBase) -> None:
    (answer,) = answered(kb, [[0]], [False])
    assert (answer.types, answer.xrefs) == (["Disease", "T047"], None)


def test_no_two_answers_share_a_list(kb: KnowledgeBase) -> None:
    first, second = answered(kb, [[0], [0]], [False, False], CODES)
    first.types.clear()
    first.xrefs["ICD10CM"].clear()
    assert second.types == ["Disease", "T047"] and second.xrefs["ICD10CM"] == ["G35", "G36"]
