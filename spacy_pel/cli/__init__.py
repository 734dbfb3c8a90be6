"""``pel``: the commands. A command imports what it does when it runs: torch alone takes seconds."""

from . import documents, knowledge_bases, pipelines
from .apps import pel

__all__ = ["pel"]
