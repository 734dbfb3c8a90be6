"""The difference of two KBs, beside one by dictionaries."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.change import add_entities, remove_entities, update_entities
from spacy_pel.kb.describe import EntityDifference, compare_kbs, difference

from ..conftest import ENTITIES as SEVEN
from .examples import ENTITIES

RECORDS = st.builds(
    lambda id, name, aliases, definition, parents: Entity(
        id, name, aliases, definition=definition, parents=parents
    ),
    st.sampled_from([f"C{number}" for number in range(15)] + ["é", "\U0001f9ec", "z"]),
    st.sampled_from("ab"),
    st.sampled_from([(), ("b",), ("b", "c"), ("c", "b")]),
    st.sampled_from([None, "d"]),
    st.sampled_from([(), ("P",)]),
)
CONTENTS = st.lists(RECORDS, min_size=1, max_size=15, unique_by=lambda entity: entity.concept_id)


def by_dictionaries(old: list[Entity], new: list[Entity]) -> list[EntityDifference]:
    before = {entity.concept_id: entity for entity in old}
    after = {entity.concept_id: entity for entity in new}
    changes = []
    for id in sorted(before.keys() | after.keys()):
        if id not in before:
            changes.append(EntityDifference(id, "added"))
        elif id not in after:
            changes.append(EntityDifference(id, "removed"))
        elif before[id] != after[id]:
            first, second = before[id]._asdict(), after[id]._asdict()
            changes.append(
                EntityDifference(id, "changed", tuple(k for k in first if first[k] != second[k]))
            )
    return changes


@settings(max_examples=10, deadline=None, phases=set(Phase) - {Phase.shrink})
@given(CONTENTS, CONTENTS)
def test_difference(old: list[Entity], new: list[Entity]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = build_kb(old, Path(folder) / "old")
        second = build_kb(new, Path(folder) / "new")
        assert list(difference(first, second)) == by_dictionaries(old, new)
        assert list(difference(first, first)) == []


def test_difference_of_kbs_that_were_changed(tmp_path: Path) -> None:
    old = build_kb(ENTITIES, tmp_path / "old")
    new = build_kb(ENTITIES, tmp_path / "new")
    add_entities(new.path, [Entity("C0", "x"), Entity("C15", "y")])
    update_entities(new.path, [Entity("C2", "Mass spectrometry", ("MS",), (), "Text.")])
    remove_entities(new.path, ["C10"])
    assert list(difference(old, new)) == []
    new.refresh()
    assert list(difference(old, new)) == [
        EntityDifference("C0", "added"),
        EntityDifference("C10", "removed"),
        EntityDifference("C15", "added"),
        EntityDifference("C2", "changed", ("aliases", "definition")),
    ]
    assert list(difference(new, KnowledgeBase.open(new.path))) == []


def test_changes_are_counted_and_written(tiny_kb: Path, tmp_path: Path) -> None:
    changed = SEVEN[6]._replace(aliases=("ren",), definition="A text.")
    new = [*SEVEN[2:6], changed, *(Entity(f"D{n}", f"new {n}") for n in range(4))]
    folder = build_kb(new, tmp_path / "new").path
    found = compare_kbs(tiny_kb, folder, tmp_path / "changes.jsonl", n_ids=3)
    assert found.kinds == {"added": 4, "removed": 2, "changed": 1}
    assert found.fields == {"aliases": 1, "definition": 1}
    assert found.first_ids == {
        "removed": ["C01", "C02"], "changed": ["C07"], "added": ["D0", "D1", "D2"]
    }  # fmt: skip
    assert found.is_not_embedded == KnowledgeBase.open(tiny_kb).has_vectors
    lines = (tmp_path / "changes.jsonl").read_text("utf8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == "C01 C02 C07 D0 D1 D2 D3".split()
