"""Knowledge bases: entities read from source files, kept in a folder, searched by vector."""

from .build import build_kb as build_kb
from .knowledge_base import KnowledgeBase as KnowledgeBase
from .knowledge_base import SearchFilter as SearchFilter
from .readers import open_source as open_source
from .records.entity import Entity as Entity
from .records.semantic_types import SemanticType as SemanticType
from .vectors.index import Candidates as Candidates
from .vectors.index import VectorIndex as VectorIndex
from .vectors.writing import write_vectors as write_vectors
