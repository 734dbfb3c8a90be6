"""Contextual, zero-shot entity linking for spaCy: ``nlp.add_pipe("proxy_linker")``."""

from .kb.knowledge_base import KnowledgeBase

__version__ = "0.1.0"
__all__ = ["KnowledgeBase", "__version__"]
