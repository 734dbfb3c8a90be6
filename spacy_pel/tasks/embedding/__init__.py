"""The vectors of a knowledge base, made by a pipeline's retriever."""

from .embed import embed_kb, is_embedded, update_vectors
from .rows import LinkerRows

__all__ = ["LinkerRows", "embed_kb", "is_embedded", "update_vectors"]
