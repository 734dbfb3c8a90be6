"""Entities at rest: read from source files, kept in a folder, searched by vector."""

from .build import build_kb
from .entity import Entity, SemanticType
from .index import Candidates, VectorIndex
from .knowledge_base import KnowledgeBase
from .readers import open_source
from .selection import Only
from .vector_writing import write_vectors

__all__ = [
    "Candidates",
    "Entity",
    "KnowledgeBase",
    "Only",
    "SemanticType",
    "VectorIndex",
    "build_kb",
    "open_source",
    "write_vectors",
]
