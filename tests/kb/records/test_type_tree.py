"""scispaCy's tree of semantic types."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.kb import SemanticType, build_kb
from spacy_pel.kb.records.semantic_types import SemanticTypeTree

from ..examples import ENTITIES

# "A1.2", which stands above "A1.2.3", is missing, and "Gene" has no place.
TYPES = [
    SemanticType("Anatomy", "T017", "A1.2.3"),
    SemanticType("Event", "T051", "B"),
    SemanticType("Gene"),
    SemanticType("Tenth", "T110", "A1.10"),
    SemanticType("Entity", "T071", "A"),
    SemanticType("Ninth", "T109", "A1.9"),
    SemanticType("Physical Object", "T072", "A1"),
    SemanticType("Tissue", "T024", "A1.2.3.1"),
]


@pytest.fixture
def tree() -> SemanticTypeTree:
    return SemanticTypeTree(TYPES)


def test_nodes_stand_depth_first_with_their_levels(tree: SemanticTypeTree) -> None:
    assert [(node.type_id, node.level) for node in tree.flat_nodes] == [
        ("T071", 1), ("T072", 2), ("T017", 4), ("T024", 5), ("T109", 3), ("T110", 3), ("T051", 1),
        ("Gene", 1),
    ]  # fmt: skip
    assert tree.depth == 5 and SemanticTypeTree([]).depth == 0


def test_each_node_has_its_parent_and_what_is_below(tree: SemanticTypeTree) -> None:
    node = tree.get_node_from_id("T017")
    assert tree.get_parent(node).full_name == "Physical Object"
    assert [tree.get_parent(tree.get_node_from_id(id)) for id in ("T071", "Gene")] == [None, None]
    below = tree.get_children(tree.get_node_from_id("T071"))
    assert [child.type_id for child in below] == ["T072", "T017", "T024", "T109", "T110"]
    assert tree.get_canonical_name("T024") == "Tissue"
    with pytest.raises(KeyError):
        tree.get_node_from_id("T999")


def test_types_collapse_to_those_of_a_level(tree: SemanticTypeTree) -> None:
    collapsed = tree.get_collapsed_type_id_map_at_level(2)
    below = dict.fromkeys(["T072", "T017", "T024", "T109", "T110"], "T072")
    assert collapsed == {"T071": "T071", **below, "T051": "T051", "Gene": "Gene"}
    assert [node.type_id for node in tree.get_nodes_at_depth(3)] == ["T109", "T110"]


def test_a_kb_has_the_tree_of_its_types(tmp_path: Path) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb", types=[SemanticType("Disease", "T047", "B2.2")])
    assert [node.type_id for node in kb.semantic_type_tree.flat_nodes] == ["T047", "Finding"]
