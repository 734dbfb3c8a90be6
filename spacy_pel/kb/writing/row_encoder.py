"""What makes the vectors of entities that join a KB; ``embedding`` has the one of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...errors import PelError
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity


class RowEncoder(Protocol):
    """Encodes entities as a KB's other entities were encoded.

    fingerprint: of the encoder, as the KB's manifest has it. row_kind: what a row stands for.
    dim: the width of its vectors.
    """

    fingerprint: str
    row_kind: str
    dim: int

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """The rows of these entities: vectors, float32 [n, dim], and for each the place of its
        entity among those given, int64 [n]."""


def check_encoder(kb: KnowledgeBase, encoder: RowEncoder | None) -> None:
    """Raises PelError, with the remedy, if entities that join the KB would get no fit vectors."""
    if not kb.has_vectors:
        return
    if encoder is None:
        raise PelError(
            f"{kb.path}: has vectors, which new entities need too",
            "give the pipeline that made them: --pipeline PIPELINE",
        )
    kb.check_fingerprint(encoder.fingerprint)
    if encoder.row_kind != kb.row_kind:
        raise PelError(
            f"{kb.path}: has one vector for each {kb.row_kind}, the pipeline makes one for each "
            f"{encoder.row_kind}",
            f"embed it again: python -m spacy pel kb embed {kb.path} PIPELINE",
        )
