"""Data sets for telling mentions out of the knowledge base (PEL, appendix D)."""

from .dataset import build_okb

__all__ = ["build_okb"]
