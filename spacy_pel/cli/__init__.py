"""The commands of ``pel``. Each imports what it needs when it runs, since torch alone takes seconds."""

from . import documents, knowledge_bases, pipelines
from .apps import pel

__all__ = ["pel"]
