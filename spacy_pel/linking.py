"""The one way to link: mentions -> vectors -> candidates. Used by the pipeline and evaluation."""

from __future__ import annotations

from typing import Protocol, Sequence

import numpy as np

from .inputs import MentionInContext
from .kb.index import Candidates
from .retriever import Retriever


class Searchable(Protocol):
    """A knowledge base, or an index in memory."""

    def search(self, vectors: np.ndarray, k: int) -> Candidates: ...


def link(
    retriever: Retriever, index: Searchable, mentions: Sequence[MentionInContext], k: int
) -> Candidates:
    """The k best entities of each mention: numbers and scores [n, k], best first."""
    return index.search(retriever.mention_vectors(mentions), k)
