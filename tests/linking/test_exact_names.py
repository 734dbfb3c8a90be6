from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.records.names import normalised
from spacy_pel.linking.exact_names import exact_name_matches, is_acronym, sole_owners
from spacy_pel.reading.mention import MentionInContext

from ..conftest import ENTITIES

SURFACES = ["ms", "RA", "Head-pain", "multiple  sclerosis", "nothing"]
MENTIONS = [MentionInContext(f"a {s} b", 2, 2 + len(s)) for s in SURFACES]


@pytest.fixture(scope="module")
def kb(tiny_kb: Path) -> KnowledgeBase:
    return KnowledgeBase.open(tiny_kb)


def test_a_match_is_a_name_ignoring_case_and_punctuation(kb: KnowledgeBase) -> None:
    numbers = np.array([[3, 0, 5, 1, -1]] * len(MENTIONS))
    expected = [
        [n >= 0 and normalised(s) in map(normalised, ENTITIES[n].names) for n in numbers[0]]
        for s in SURFACES
    ]
    assert exact_name_matches(kb, MENTIONS, numbers).tolist() == expected
    assert exact_name_matches(kb, [], np.empty((0, 3), dtype=np.int64)).shape == (0, 3)


def test_a_sole_owner_is_the_one_entity_that_has_the_name(kb: KnowledgeBase) -> None:
    numbers = np.array([[3, 0, 5, 1, 2, -1]] * len(MENTIONS))
    owners = [
        [n for n, e in enumerate(ENTITIES) if normalised(s) in map(normalised, e.names)]
        for s in SURFACES
    ]
    expected = [
        [owned == [n] and not is_acronym(s) for n in numbers[0]]
        for s, owned in zip(SURFACES, owners)
    ]
    assert sole_owners(kb, MENTIONS, numbers).tolist() == expected
    assert sum(map(sum, expected)) >= 2


def test_what_an_acronym_is() -> None:
    assert all(map(is_acronym, ["MS", "CsA", "IL-6", "COPD", "NaCl"]))
    assert not any(map(is_acronym, ["Ms", "ms", "Na", "ASPIRIN", "M S", "Aspirin", "", "6"]))
