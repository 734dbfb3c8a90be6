"""scispaCy's names for look-ups among semantic types, as a tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .semantic_types import SemanticType, is_below, tree_steps


class SemanticTypeNode(NamedTuple):
    """A semantic type in its tree.

    type_id: its code, for example a TUI, or, where it has none, its name.
    children: nodes right below it. level: 1 for "A" and "B" of the UMLS, 2 for "A1", and so on;
        1 also for a type without a place in a hierarchy.
    """

    type_id: str
    full_name: str
    children: list[SemanticTypeNode]
    level: int


class SemanticTypeTree:
    """The types of a KB as scispaCy's UmlsSemanticTypeTree has them, without a node above all.

    Of a type that the KB lacks, the types below stand below the next one above it.
    """

    def __init__(self, types: Iterable[SemanticType]) -> None:
        self.flat_nodes: list[SemanticTypeNode] = []
        self._parents: dict[str, SemanticTypeNode | None] = {}
        path: list[tuple[SemanticType, SemanticTypeNode]] = []
        for type in sorted(types, key=_place):
            level = max(1, len(tree_steps(type.tree_number)))
            node = SemanticTypeNode(type.code or type.name, type.name, [], level)
            while path and not is_below(type.tree_number, path[-1][0].tree_number):
                path.pop()
            parent = path[-1][1] if path else None
            if parent is not None:
                parent.children.append(node)
            path.append((type, node))
            self._parents[node.type_id] = parent
            self.flat_nodes.append(node)
        self.type_id_to_node = {node.type_id: node for node in self.flat_nodes}
        self.depth = max((node.level for node in self.flat_nodes), default=0)

    def get_node_from_id(self, type_id: str) -> SemanticTypeNode:
        """The node of a type; KeyError if the KB does not have it."""
        return self.type_id_to_node[type_id]

    def get_canonical_name(self, type_id: str) -> str:
        """The name of a type; KeyError if the KB does not have it."""
        return self.type_id_to_node[type_id].full_name

    def get_nodes_at_depth(self, level: int) -> list[SemanticTypeNode]:
        """The nodes of a level."""
        return [node for node in self.flat_nodes if node.level == level]

    def get_children(self, node: SemanticTypeNode) -> list[SemanticTypeNode]:
        """All nodes below a node, depth first."""
        return [below for child in node.children for below in (child, *self.get_children(child))]

    def get_parent(self, node: SemanticTypeNode) -> SemanticTypeNode | None:
        """The node right above a node; None if there is none."""
        return self._parents[node.type_id]

    def get_collapsed_type_id_map_at_level(self, level: int) -> dict[str, str]:
        """From type ids to those of the nodes of a level above them; else to themselves."""
        collapsed = {type_id: type_id for type_id in self.type_id_to_node}
        for node in self.get_nodes_at_depth(level):
            collapsed.update({below.type_id: node.type_id for below in self.get_children(node)})
        return collapsed


def _place(type: SemanticType) -> tuple:
    """Ascending as the numbers do: "A1.10" after "A1.9"; types without a place at the end."""
    steps = tree_steps(type.tree_number)
    return (not steps, [(len(step), step) for step in steps], type.name)
