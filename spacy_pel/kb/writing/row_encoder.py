"""The interface of what makes the vectors of new entities. ``tasks.embedding`` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...errors import PelError
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from ..records.mention_store import MentionPassage


class RowEncoder(Protocol):
    """Encodes entities in the way the KB's other entities were encoded.

    Attributes:
        fingerprint: The fingerprint of the encoder, as in the KB's manifest.
        row_kind: What a row stands for, as in the KB's manifest.
        dim: The length of its vectors.
    """

    fingerprint: str
    row_kind: str
    dim: int

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """The rows of these entities.

        Returns:
            Vectors, float32 [n, dim], and the place of each row's entity in ``entities``, int64 [n].
        """


class MentionEncoder(Protocol):
    """Encodes the mentions of passages as a linker reads mentions.

    Attributes:
        fingerprint: The fingerprint of its entity encoder, as in the KB's manifest.
        mention_fingerprint: The fingerprint of all that decides the vectors of mentions.
        dim: The length of its vectors.
    """

    fingerprint: str
    mention_fingerprint: str
    dim: int

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        """The vectors of all mentions of the passages, in their order: float32 [n, dim]."""


def check_encoder(kb: KnowledgeBase, encoder: RowEncoder | None) -> None:
    """Raises PelError if new entities of the KB would get no vectors, or vectors that do not fit."""
    if not kb.has_vectors:
        return
    if encoder is None:
        raise PelError(
            f"{kb.path}: has vectors, so new entities need vectors too",
            "give the pipeline that made them: --pipeline PIPELINE",
        )
    kb.check_fingerprint(encoder.fingerprint)
    if encoder.row_kind != kb.row_kind:
        raise PelError(
            f"{kb.path}: has one vector for each {kb.row_kind}, but the pipeline makes one for each "
            f"{encoder.row_kind}",
            f"embed it again: python -m spacy pel kb embed {kb.path} PIPELINE",
        )
