"""What scispaCy's KB has and ours as well: its two dictionaries, and the tree of semantic types."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.kb import SemanticType, build_kb
from spacy_pel.kb.records.semantic_types import SemanticTypeTree
from spacy_pel.kb.scispacy_mappings import CuiEntity

from .living import ENTITIES


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
    assert dict(by_name) == {
        "Mitral stenosis": {"C1"}, "MS": {"C1", "C3"}, "Multiple sclerosis": {"C3"},
        "Disseminated": {"C3"}, "Mass spectrometry": {"C2"}, "Été 日本 🧬": {"C10"},
        "β-catenin": {"C10"},
    }  # fmt: skip
    assert len(by_name) == 7 and "ms" not in by_name
    for view, missing in ((by_id, "C4"), (by_name, "ms")):
        with pytest.raises(KeyError, match=missing):
            view[missing]
    assert [node.type_id for node in kb.semantic_type_tree.flat_nodes] == ["T047", "Finding"]


def test_an_entity_prints_as_scispacys() -> None:
    entity = CuiEntity("C1", "Pain", [f"p{i}" for i in range(12)], ["T184", "Finding"], None)
    assert str(entity) == (
        "CUI: C1, Name: Pain\nDefinition: None\nTUI(s): T184, Finding\n"
        "Aliases (abbreviated, total: 12): \n\t p0, p1, p2, p3, p4, p5, p6, p7, p8, p9"
    )
    assert str(entity._replace(aliases=["ache"])).endswith("Aliases: (total: 1): \n\t ache")


def test_the_tree_of_types() -> None:
    # "A1.2", which stands above "A1.2.3", is missing, and "Gene" has no place.
    places = {
        "T017": "A1.2.3", "T051": "B", "Gene": None, "T110": "A1.10", "T071": "A", "T109": "A1.9",
        "T072": "A1", "T024": "A1.2.3.1",
    }  # fmt: skip
    tree = SemanticTypeTree(SemanticType(f"Name of {id}", id, at) for id, at in places.items())
    assert [(node.type_id, node.level) for node in tree.flat_nodes] == [
        ("T071", 1), ("T072", 2), ("T017", 4), ("T024", 5), ("T109", 3), ("T110", 3), ("T051", 1),
        ("Gene", 1),
    ]  # fmt: skip
    assert tree.depth == 5 and SemanticTypeTree([]).depth == 0
    assert tree.get_parent(tree.get_node_from_id("T017")).full_name == "Name of T072"
    assert [tree.get_parent(tree.get_node_from_id(id)) for id in ("T071", "Gene")] == [None, None]
    below = [child.type_id for child in tree.get_children(tree.get_node_from_id("T071"))]
    assert below == ["T072", "T017", "T024", "T109", "T110"]
    assert tree.get_canonical_name("T024") == "Name of T024"
    with pytest.raises(KeyError):
        tree.get_node_from_id("T999")
    collapsed = tree.get_collapsed_type_id_map_at_level(2)
    own = {id: id for id in ("T071", "T051", "Gene")}
    assert collapsed == {**own, **dict.fromkeys(below, "T072")}
    assert [node.type_id for node in tree.get_nodes_at_depth(3)] == ["T109", "T110"]
