"""Words that mean the same; test_name_finder.py compares the rest with a naive search."""

from pathlib import Path

import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb

ORGANS = "agenesis cyst stone pain failure".split()


@pytest.mark.parametrize("n_seen, is_found", [(2, False), (3, True)])
def test_words_mean_the_same_if_names_of_enough_entities_use_them_so(
    tmp_path: Path, n_seen: int, is_found: bool
) -> None:
    seen = [Entity(o, f"{o} of the kidney", (f"Renal {o}", o)) for o in ORGANS[:n_seen]]
    build_kb([*seen, Entity("X", "Kidney tumour", ("KT",))], tmp_path / "kb", in_any_order=True)
    kb = KnowledgeBase.open(tmp_path / "kb")
    for _ in range(2):  # made, and then mapped
        finder = kb.name_finder()
        text = "a renal tumor, renal"
        found = [(text[a:b], kb.entities(own)[0].concept_id) for a, b, own in finder.found(text)]
        assert found == [("renal tumor", "X")] * is_found
        assert [e.concept_id for e in kb.named("renal tumor")] == ["X"] * is_found
        assert kb.named("tumor") == []
    assert len(list((tmp_path / "kb").glob(".names-*"))) == 1


def test_names_of_some_entities(tmp_path: Path) -> None:
    build_kb(
        [Entity("A", "head pain"), Entity("B", "foot pain")], tmp_path / "kb", in_any_order=True
    )
    kb = KnowledgeBase.open(tmp_path / "kb")
    text = "pain of a head; pain in the foot; Head Pain"
    for entities, expected in ((None, [0, 1, 0]), (kb.numbers()[:1], [0, 0])):
        finder = kb.name_finder(entities=entities)
        assert [own.tolist() for *_, own in finder.found(text)] == [[n] for n in expected]
    assert kb.name_finder(min_length=10).found(text) == []
