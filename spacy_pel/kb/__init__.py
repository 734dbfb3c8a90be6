"""Knowledge bases: entities read from source files, kept in a folder, searched by vector."""

from .change import build_kb
from .knowledge_base import KnowledgeBase, SearchFilter
from .readers import open_source
from .records.entity import Entity
from .records.semantic_types import SemanticType
from .vector_writing import write_vectors
from .vectors.index import Candidates, VectorIndex

__all__ = [
    "Candidates",
    "Entity",
    "KnowledgeBase",
    "SearchFilter",
    "SemanticType",
    "VectorIndex",
    "build_kb",
    "open_source",
    "write_vectors",
]
