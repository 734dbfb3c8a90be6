"""Data sets of mentions whose entities the knowledge base lacks (PEL, appendix D)."""

from .dataset import build_okb

__all__ = ["build_okb"]
