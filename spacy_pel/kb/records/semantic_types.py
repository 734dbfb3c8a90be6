"""Semantic types, and their place in a tree such as UMLS's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class SemanticType(NamedTuple):
    """A type of entities, with its code, such as a TUI, and its place in a tree, where it has them.

    The tree numbers of its descendants, for example "B2.2.1.2.1", begin with its own.
    """

    name: str
    code: str | None = None
    tree_number: str | None = None


def _steps(tree_number: str | None) -> list[str]:
    """From the top: "B", "2", "2", "1" for "B2.2.1", because "B" is above "B2" in the UMLS."""
    return re.findall(r"[A-Z]+|[^A-Z.]+", tree_number or "")


def _is_below(tree_number: str | None, ancestor: str | None) -> bool:
    """Whether a tree number stands below another, step by step. None stands nowhere."""
    steps, above = _steps(tree_number), _steps(ancestor)
    return 0 < len(above) < len(steps) and steps[: len(above)] == above


def types_meant(text: str, types: Iterable[SemanticType]) -> list[SemanticType]:
    """The types that have this name, code or tree number, and all types below them."""
    types = list(types)
    chosen = [type for type in types if text and text in type]
    numbers = {text, *(type.tree_number for type in chosen)}
    return [t for t in types if t in chosen or any(_is_below(t.tree_number, n) for n in numbers)]


class SemanticTypeNode(NamedTuple):
    """A semantic type in its tree."""

    type_id: str  # the code, for example a TUI; the name if there is no code
    full_name: str
    children: list[SemanticTypeNode]  # directly below it
    level: int  # 1 for "A" and "B" of the UMLS and a type without a place, 2 for "A1", and so on


class SemanticTypeTree:
    """The types of a KB, as in scispaCy's UmlsSemanticTypeTree, but without one root above all.

    The types below one that the KB lacks move up. Of a type that is not there, there is a KeyError.
    """

    def __init__(self, types: Iterable[SemanticType]) -> None:
        self.flat_nodes: list[SemanticTypeNode] = []  # a parent before its children
        self._parents: dict[str, SemanticTypeNode | None] = {}
        placed: list[
            tuple[str | None, SemanticTypeNode]
        ] = []  # the last one above another is the nearest
        for name, code, place in sorted(types, key=_order):
            node = SemanticTypeNode(code or name, name, [], max(1, len(_steps(place))))
            above = (each for other, each in reversed(placed) if _is_below(place, other))
            self._parents[node.type_id] = parent = next(above, None)
            if parent is not None:
                parent.children.append(node)
            placed.append((place, node))
            self.flat_nodes.append(node)
        self.type_id_to_node = {node.type_id: node for node in self.flat_nodes}
        self.depth = max((node.level for node in self.flat_nodes), default=0)

    def get_node_from_id(self, type_id: str) -> SemanticTypeNode:
        return self.type_id_to_node[type_id]

    def get_canonical_name(self, type_id: str) -> str:
        return self.type_id_to_node[type_id].full_name

    def get_nodes_at_depth(self, level: int) -> list[SemanticTypeNode]:
        return [node for node in self.flat_nodes if node.level == level]

    def get_children(self, node: SemanticTypeNode) -> list[SemanticTypeNode]:
        """All nodes below a node, in depth-first order."""
        return [below for child in node.children for below in (child, *self.get_children(child))]

    def get_parent(self, node: SemanticTypeNode) -> SemanticTypeNode | None:
        return self._parents[node.type_id]

    def get_collapsed_type_id_map_at_level(self, level: int) -> dict[str, str]:
        """The type id of each type's ancestor at a level; a type without such an ancestor maps to itself."""
        collapsed = {type_id: type_id for type_id in self.type_id_to_node}
        for node in self.get_nodes_at_depth(level):
            collapsed.update({below.type_id: node.type_id for below in self.get_children(node)})
        return collapsed


def _order(type: SemanticType) -> tuple:
    """A key that sorts "A1.10" after "A1.9", and types without a place last."""
    steps = _steps(type.tree_number)
    return (not steps, [(len(step), step) for step in steps], type.name)
