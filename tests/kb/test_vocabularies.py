"""A vocabulary that the KB lacks is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.describe import check_vocabularies


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    entities = [
        Entity("MONDO:1", "a", xrefs=("SCTID:1", "ICD10CM:G35")),
        Entity("MONDO:2", "b", alt_ids=("A_B:1", "plain")),
    ]
    return build_kb(entities, tmp_path / "kb")


@pytest.mark.parametrize("name", ["ICD10CM", "icd10cm", "SCTID", "MONDO", "A_B"])
def test_any_identifier_counts(kb: KnowledgeBase, name: str) -> None:
    check_vocabularies(kb, [name])
    assert any(entity.codes(name) for entity in kb)


@pytest.mark.parametrize("name", ["ICD10", "SNOMEDCT_US", "AxB", "%", "", "plain", 'ID", "x'])
def test_another_is_refused_with_those_that_there_are(kb: KnowledgeBase, name: str) -> None:
    assert not any(entity.codes(name) for entity in kb)
    with pytest.raises(PelError, match="no entity has a code .*: A_B, ICD10CM, MONDO, SCTID"):
        check_vocabularies(kb, ["ICD10CM", name])
