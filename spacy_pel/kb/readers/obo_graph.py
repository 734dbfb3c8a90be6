"""OBO Graph JSON, in which ontologies are published beside OBO and OWL. A file is held in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...system.lines import opened_bytes
from ..records.merging import united
from .entity_source import ReadOptions, Source
from .obo import Facts
from .ontology_classes import OntologyClass, class_entities, curie

_MOST = 2**30  # bytes of a file, which is held in memory
_LOOKED_AT = 1 << 16  # bytes at the start of a file
_REPLACED_BY = ("IAO:0100001", "replacedBy")
_NAMESPACE = ("hasDefaultNamespace", "default-namespace")


def read_obo_graph(path: Path, options: ReadOptions) -> Source:
    """The classes of a ``.json`` or ``.json.gz`` file that are not deprecated, sorted by id.

    They are made as those of OBO (``read_obo``), with ids as ``curie`` writes them. The version is
    that of the first graph.

    Raises:
        PelError: It is no such file. Reading the entities raises it, with file and class, for what
            ``cleaned`` refuses.
    """
    try:
        with opened_bytes(path) as file:
            data = file.read(_MOST + 1)
        if len(data) > _MOST:
            raise PelError(f"{path}: longer than {_MOST:,} bytes", "take the ontology's OBO file")
        graphs = json.loads(data)["graphs"]
        classes = [each for graph in graphs for each in _classes(graph)]
        version = (graphs[0].get("meta") or {}).get("version") if graphs else None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PelError(f"{path}: bad JSON ({error})", "fetch it again") from error
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        problem = f"{path}: not an OBO Graph ({type(error).__name__}: {error})"
        raise PelError(problem, "fetch it again, or its OBO file") from error
    return Source(united(class_entities(path, partial(iter, classes))), version=version)


def is_obo_graph(path: Path) -> bool:
    """Whether a JSON file begins like an OBO Graph."""
    with opened_bytes(path) as file:
        return b'"graphs"' in file.read(_LOOKED_AT)


def _classes(graph: dict[str, Any]) -> Iterator[OntologyClass]:
    given = _properties(graph.get("meta") or {})
    default = [value for key in _NAMESPACE for value in given.get(key, ())]
    parents: dict[str, list[str]] = {}
    for edge in graph.get("edges") or ():
        if edge["pred"] == "is_a":
            parents.setdefault(edge["sub"], []).append(curie(edge["obj"]))
    for node in graph.get("nodes") or ():
        if node.get("type", "CLASS") == "CLASS":
            facts = _facts(node, default)
            yield curie(node["id"]), {**facts, "is_a": parents.get(node["id"], [])}


def _facts(node: dict[str, Any], namespace: list[str]) -> Facts:
    meta = node.get("meta") or {}
    properties = _properties(meta)
    return {
        "name": [node["lbl"]] if node.get("lbl") else [],
        "namespace": properties.get("hasOBONamespace", namespace),
        "alt_id": [curie(id) for id in properties.get("hasAlternativeId", ())],
        "def": [meta["definition"]["val"]] if meta.get("definition") else [],
        "synonym": [each["val"] for each in meta.get("synonyms") or ()],
        "xref": [curie(each["val"]) for each in meta.get("xrefs") or ()],
        "is_obsolete": ["true"] if meta.get("deprecated") else [],
        "replaced_by": [curie(id) for key in _REPLACED_BY for id in properties.get(key, ())],
    }


def _properties(meta: dict[str, Any]) -> dict[str, list[str]]:
    """The values of each property, by its name without the vocabulary."""
    properties: dict[str, list[str]] = {}
    for each in meta.get("basicPropertyValues") or ():
        properties.setdefault(curie(each["pred"]), []).append(each["val"])
    return properties
