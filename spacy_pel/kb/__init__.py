"""Entities at rest: read from source files, kept in a folder, searched by vector."""

from .build import build_kb, write_vectors
from .entity import Entity
from .index import Candidates, VectorIndex
from .knowledge_base import KnowledgeBase
from .readers import read_entities

__all__ = [
    "Candidates",
    "Entity",
    "KnowledgeBase",
    "VectorIndex",
    "build_kb",
    "read_entities",
    "write_vectors",
]
