"""The vectors of a knowledge base, made by a pipeline's retriever."""

from .embed import embed_kb, has_settings, is_embedded
from .rows import LinkerRows

__all__ = ["LinkerRows", "embed_kb", "has_settings", "is_embedded"]
