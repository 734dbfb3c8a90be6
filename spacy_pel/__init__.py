"""Contextual, zero-shot entity linking for spaCy: ``nlp.add_pipe("proxy_linker")``."""

from .about import __version__
from .kb.knowledge_base import KnowledgeBase

__all__ = ["KnowledgeBase", "__version__"]
