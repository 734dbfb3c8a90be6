import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SemanticType, build_kb
from spacy_pel.kb.change import change_entities
from spacy_pel.kb.describe import copy_kb
from spacy_pel.kb.store import KB_FILE

from .living import ENTITIES, assert_holds, embed, living_kb


def test_the_vocabularies_of_any_identifier_are_known_and_no_others(tmp_path: Path) -> None:
    entities = [
        Entity("MONDO:1", "a", xrefs=("SCTID:1", "ICD10CM:G35")),
        Entity("MONDO:2", "b", alt_ids=("A_B:1", "plain")),
    ]
    kb = build_kb(entities, tmp_path / "kb")
    for name in ("ICD10CM", "icd10cm", "SCTID", "MONDO", "A_B"):
        kb.check_vocabularies([name])
        assert any(entity.codes(name) for entity in kb)
    for name in ("ICD10", "AxB", "%", "", "plain", 'ID", "x\''):
        assert not any(entity.codes(name) for entity in kb)
        with pytest.raises(PelError, match="no entity has a code .*: A_B, ICD10CM, MONDO, SCTID"):
            kb.check_vocabularies(["ICD10CM", name])


def test_views_are_mappings(tmp_path: Path) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb", types=[SemanticType("Disease", "T047", "B2.2")])
    by_id, by_name = kb.cui_to_entity, kb.alias_to_cuis
    codes = {"Disease": "T047", "Finding": "Finding"}  # the name where there is no code
    assert dict(by_id) == {
        e.concept_id: (*e[:2], list(e.aliases), [codes[type] for type in e.types], e.definition)
        for e in ENTITIES
    }
    assert by_id["OMIM:1"] == by_id["C1"] and "OMIM:1" in by_id and len(by_id) == 4
    assert by_id.get("C4") is None and 3 not in by_id
    names = {name for entity in ENTITIES for name in entity.names}
    owners = {name: {e.concept_id for e in ENTITIES if name in e.names} for name in names}
    assert dict(by_name) == owners
    assert len(by_name) == 7 and "ms" not in by_name
    for view, missing in ((by_id, "C4"), (by_name, "ms")):
        with pytest.raises(KeyError, match=missing):
            view[missing]
    names = [kb.semantic_type_tree.get_canonical_name(code) for code in ("T047", "Finding")]
    assert names == ["Disease", "Finding"]


def test_a_copy_has_no_vectors_that_were_replaced(tmp_path: Path) -> None:
    folder, copy = living_kb(tmp_path / "kb", ENTITIES, dtype="float16"), tmp_path / "copy"
    embed(folder).close()
    with KnowledgeBase.open(folder) as kb:
        copy_kb(kb, copy)
    assert_holds(copy, ENTITIES)
    for path, n_kept in (folder, 2), (copy, 1):
        with closing(sqlite3.connect(path / KB_FILE)) as database:
            assert database.execute("SELECT count(*) FROM vectors").fetchone() == (n_kept,)


def test_a_copy_has_the_words_of_all_changes_in_one_part(tmp_path: Path) -> None:
    folder, copy = build_kb(ENTITIES, tmp_path / "kb").path, tmp_path / "copy"
    new = Entity("C9", "a name added later")
    change_entities(folder, "add", [new])
    with KnowledgeBase.open(folder) as kb:
        copy_kb(kb, copy)
    for path, n_parts in (folder, 2), (copy, 1):
        with closing(sqlite3.connect(path / KB_FILE)) as database:
            query = "SELECT count(DISTINCT segid) FROM word_idx"
            assert database.execute(query).fetchone() == (n_parts,)
    assert_holds(copy, [*ENTITIES, new])
